#include "absl/status/status.h"
#include "bench/gpu/open_cuda_copies.h"

namespace tensorkv::bench::gpu {

absl::StatusOr<std::unique_ptr<PlainCopies>> OpenCudaCopies(int /*ordinal*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tensorkv::bench::gpu
