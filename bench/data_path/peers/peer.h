// Something that keeps values, ours or another's.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_PEER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/workload.h"
#include "bench/harness/load.h"

namespace tensorkv::bench {

// Makes loads. Not thread-safe; outlives its loads, of which there is one at a
// time.
class Peer {
 public:
  virtual ~Peer() = default;

  // "raw", "redis", ...
  virtual std::string name() const = 0;

  // Calls of `workload` over keys that have values.
  // Errors: OutOfRange, saying why, for a workload that is beyond the peer's
  // limits; those of its calls.
  virtual absl::StatusOr<std::unique_ptr<Load>> MakeLoad(
      const Workload& workload) = 0;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_PEER_H_
