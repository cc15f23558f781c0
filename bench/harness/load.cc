#include "bench/harness/load.h"

#include "base/status_macros.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {

absl::Status FunctionLoad::Run(int64_t num_calls,
                               std::vector<absl::Duration>* latencies) {
  for (int64_t i = 0; i < num_calls; ++i) {
    const absl::Duration start = SteadyTime();
    RETURN_IF_ERROR(call_());
    latencies->push_back(SteadyTime() - start);
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::bench
