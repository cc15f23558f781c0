#include "absl/status/status.h"
#include "bench/gpu/open_cuda_copies.h"

namespace tensorkv::bench::gpu {

absl::StatusOr<CudaCopies> OpenCudaCopies(int /*ordinal*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tensorkv::bench::gpu
