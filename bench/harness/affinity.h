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

// Binds the calling thread for a scope; where that is refused it stays as it
// is.
class ScopedAffinity {
 public:
  explicit ScopedAffinity(const CpuList& cpus);
  ~ScopedAffinity();
  ScopedAffinity(const ScopedAffinity&) = delete;
  ScopedAffinity& operator=(const ScopedAffinity&) = delete;

 private:
  const CpuList before_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_AFFINITY_H_
