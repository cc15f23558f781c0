// Servers that we talk to over raw sockets.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_SOCKET_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_SOCKET_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/peer.h"
#include "bench/data_path/peers/wire_protocol.h"

namespace tensorkv::bench {

struct SocketPeerOptions {
  std::string name;
  std::string address;  // as ConnectTo takes it
  pid_t server = 0;
  int64_t max_value_bytes = 0;
  // Whether a call may use several connections: Workload::connections of them
  // take turns where there are as many calls under way, and else carry equal
  // parts of each. Without it there is one connection.
  bool uses_stripes = false;
};

// Calls under way at once are pipelined. Values go from and to the caller's
// memory without a copy.
class SocketPeer final : public Peer {
 public:
  SocketPeer(SocketPeerOptions options, std::unique_ptr<WireProtocol> protocol)
      : options_(std::move(options)), protocol_(std::move(protocol)) {}

  std::string name() const override { return options_.name; }
  absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      const Workload& workload) override;

 private:
  const SocketPeerOptions options_;
  const std::unique_ptr<WireProtocol> protocol_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_SOCKET_PEER_H_
