// Calls that are under way at once.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_LANES_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_LANES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensorkv::bench {

// Makes `num_calls` blocking calls, `num_lanes` at once, each lane one after
// the other; appends the time that each took. With one lane on this thread,
// else on a thread per lane. The first error ends the others' work.
absl::Status RunOnLanes(int num_lanes, int64_t num_calls,
                        absl::FunctionRef<absl::Status(int lane)> call,
                        std::vector<absl::Duration>* latencies);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_LANES_H_
