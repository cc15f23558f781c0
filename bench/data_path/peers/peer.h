// Something that keeps values, ours or another's.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_PEER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_PEER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/data_path/peers/workload.h"
#include "bench/harness/load.h"

namespace tensorkv::bench {

struct Peer {
  std::string name;  // "raw", "redis", ...

  // Makes a load: calls of a workload over keys that have values. A peer has
  // one load at a time, unless it says otherwise.
  // Errors: OutOfRange, saying why, for a workload that is beyond the peer's
  // limits; those of its calls.
  std::function<absl::StatusOr<std::unique_ptr<Load>>(const Workload&)>
      make_load;
};

// The shape of a load of `workload` on the process `server`.
inline LoadShape ShapeOf(const Workload& workload, pid_t server) {
  return {.bytes_per_call = workload.bytes_per_call(),
          .keys_per_call = workload.num_keys,
          .in_flight = workload.in_flight,
          .server = server};
}

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_PEER_H_
