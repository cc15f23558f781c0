// Servers that we talk to over raw sockets.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_SOCKET_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_SOCKET_PEER_H_

#include <sys/types.h>

#include <string>

#include "bench/data_path/peers/peer.h"
#include "bench/data_path/peers/wire_protocol.h"

namespace tensorkv::bench {

struct SocketPeerOptions {
  std::string name;
  std::string address;  // as ConnectTo takes it
  pid_t server = 0;
};

// Each call under way has a connection and a thread of its own. Values go from
// and to the caller's memory without a copy.
Peer SocketPeer(const SocketPeerOptions& options, const WireProtocol& protocol);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_SOCKET_PEER_H_
