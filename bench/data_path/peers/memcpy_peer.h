// The memory's own speed: one copy per direction, on one thread.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_MEMCPY_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_MEMCPY_PEER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/peer.h"

namespace tensorkv::bench {

// "Calls under way" are made one after the other. The calls of a run are not
// timed one by one: for small values that would take longer than the copy.
class MemcpyPeer final : public Peer {
 public:
  std::string name() const override { return "memcpy"; }
  absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      const Workload& workload) override;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_MEMCPY_PEER_H_
