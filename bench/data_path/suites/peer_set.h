// Ours and all that it is compared with, on one transport.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_PEER_SET_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_PEER_SET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/data_path/peers/peer.h"
#include "bench/data_path/peers/servers.h"
#include "bench/data_path/peers/wire_protocol.h"
#include "client/client.h"

namespace tensorkv::bench {

// Running servers, and a peer for each. Not thread-safe.
class PeerSet {
 public:
  // Errors: those of the launcher, for our own servers; others are missing
  // where they cannot be started.
  static absl::StatusOr<std::unique_ptr<PeerSet>> Start(
      ServerLauncher* launcher, Transport transport);

  Transport transport() const { return transport_; }
  const ServerProcess& our_server() const { return our_server_; }
  const Peer& ours() const { return ours_; }
  const std::vector<Peer>& references() const { return references_; }
  // The references that are missing, each with the reason.
  const std::vector<std::string>& missing() const { return missing_; }

  // A client of our server; `options` need no target and no timeout.
  absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options) const;

 private:
  explicit PeerSet(Transport transport) : transport_(transport) {}

  absl::Status StartOurs(ServerLauncher* launcher);
  absl::Status StartReferences(ServerLauncher* launcher);
  void AddSocketPeer(const char* name, absl::StatusOr<ServerProcess> server,
                     const WireProtocol& protocol);

  const Transport transport_;
  ServerProcess our_server_;
  std::vector<ServerProcess> servers_;
  std::vector<std::string> missing_;
  Peer ours_;
  std::vector<Peer> references_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_PEER_SET_H_
