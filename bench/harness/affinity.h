// Which CPUs threads may run on.

#ifndef TENSORKV_BENCH_HARNESS_AFFINITY_H_
#define TENSORKV_BENCH_HARNESS_AFFINITY_H_

#include <vector>

#include "absl/status/status.h"

namespace tensorkv::bench {

using CpuList = std::vector<int>;

// CPUs that the calling thread may run on.
CpuList AllowedCpus();

// Binds the calling thread, and those that it starts from then on.
// Errors: InvalidArgument if there is none of these CPUs.
absl::Status BindTo(const CpuList& cpus);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_AFFINITY_H_
