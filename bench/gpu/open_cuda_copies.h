// The plain copies of a GPU. In a build without the CUDA toolkit there are
// none, but this is there.

#ifndef TENSORKV_BENCH_GPU_OPEN_CUDA_COPIES_H_
#define TENSORKV_BENCH_GPU_OPEN_CUDA_COPIES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "bench/gpu/plain_copies.h"

namespace tensorkv::bench::gpu {

// By the CUDA runtime, on GPU `ordinal`.
// Errors: FailedPrecondition (this build has no CUDA; no driver, no such GPU) ·
// Internal.
absl::StatusOr<std::unique_ptr<PlainCopies>> OpenCudaCopies(int ordinal);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_OPEN_CUDA_COPIES_H_
