// What the CUDA runtime does without any layer of ours. In a build without the
// CUDA toolkit there is none, but this is there.

#ifndef TENSORKV_BENCH_GPU_RUNTIME_H_
#define TENSORKV_BENCH_GPU_RUNTIME_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/gpu/rows.h"

namespace tensorkv::bench::gpu {

struct CudaRuntime {
  std::string device_name;  // what the machine calls the GPU
  MakeCopy copy;
  // What kernels/cuda assumes of the runtime, where no document says it: what
  // allocations take of a pool, what they cost, and how to wait for an event.
  std::vector<Row> rows;
};

// Opens the runtime on GPU `ordinal`.
// Errors: FailedPrecondition (this build has no CUDA; no driver, no such GPU) ·
// Internal.
absl::StatusOr<CudaRuntime> OpenCudaRuntime(int ordinal);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_RUNTIME_H_
