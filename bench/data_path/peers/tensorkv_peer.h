// Ours, through the client library.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_TENSORKV_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_TENSORKV_PEER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/peer.h"
#include "client/client.h"

namespace tensorkv::bench {

// Unlike others, it may have several loads at a time.
class TensorkvPeer final : public Peer {
 public:
  // `server` is the process at `address`.
  // Errors: those of Client::Connect.
  static absl::StatusOr<std::unique_ptr<TensorkvPeer>> Create(
      const std::string& address, pid_t server);

  std::string name() const override { return "tensorkv"; }
  absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      const Workload& workload) override;

 private:
  TensorkvPeer(std::unique_ptr<Client> client, pid_t server)
      : client_(std::move(client)), server_(server) {}

  const std::unique_ptr<Client> client_;
  const pid_t server_;
  int next_lane_ = 0;  // each load has lanes, and so keys, of its own
};

// Bound of a call: far beyond what any takes.
inline constexpr absl::Duration kCallTimeout = absl::Minutes(2);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_TENSORKV_PEER_H_
