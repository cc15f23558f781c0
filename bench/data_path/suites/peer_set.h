// Ours and all that it is compared with, on one transport.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_PEER_SET_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_PEER_SET_H_

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/peer.h"
#include "bench/data_path/peers/servers.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/data_path/peers/workload.h"

namespace tensorkv::bench {

// Running servers, and a peer for each. Not thread-safe.
class PeerSet {
 public:
  // Errors: those of the launcher, for our own servers; others are missing
  // where they cannot be started.
  static absl::StatusOr<std::unique_ptr<PeerSet>> Start(
      ServerLauncher* launcher, Transport transport);

  Transport transport() const { return transport_; }
  TensorkvPeer* ours() const { return ours_.get(); }
  const ServerProcess& our_server() const { return our_server_; }
  const std::vector<std::unique_ptr<Peer>>& references() const {
    return references_;
  }
  // The references that are missing, each with the reason.
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  explicit PeerSet(Transport transport) : transport_(transport) {}

  absl::Status StartOurs(ServerLauncher* launcher);
  absl::Status StartReferences(ServerLauncher* launcher);
  void StartRedis(ServerLauncher* launcher);
  void StartMemcached(ServerLauncher* launcher);

  const Transport transport_;
  ServerProcess our_server_;
  std::vector<ServerProcess> servers_;
  std::vector<std::string> missing_;
  std::unique_ptr<TensorkvPeer> ours_;
  std::vector<std::unique_ptr<Peer>> references_;
};

// How many connections our client uses for a workload, which it may choose as
// it likes. Not thread-safe.
class ConnectionCounter {
 public:
  // Counts on `peers`, over TCP, which outlive the counter.
  explicit ConnectionCounter(const PeerSet* peers) : peers_(*peers) {}

  // 1 where the workload fails.
  int Count(const Workload& workload);

 private:
  absl::StatusOr<int> Measure(const Workload& workload);

  const PeerSet& peers_;
  std::map<std::tuple<Verb, int64_t, int64_t, int>, int> counts_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_PEER_SET_H_
