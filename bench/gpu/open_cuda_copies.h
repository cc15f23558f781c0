// Copies by the CUDA runtime. In a build without the CUDA toolkit there are
// none, but this is there.

#ifndef TENSORKV_BENCH_GPU_OPEN_CUDA_COPIES_H_
#define TENSORKV_BENCH_GPU_OPEN_CUDA_COPIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "bench/gpu/rows.h"

namespace tensorkv::bench::gpu {

struct CudaCopies {
  std::string device_name;  // what the machine calls the GPU
  MakeCopy make;
};

// On GPU `ordinal`.
// Errors: FailedPrecondition (this build has no CUDA; no driver, no such GPU) ·
// Internal.
absl::StatusOr<CudaCopies> OpenCudaCopies(int ordinal);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_OPEN_CUDA_COPIES_H_
