#include "absl/status/status.h"
#include "kernels/cuda/open_cuda_backend.h"

namespace tensorkv {

absl::StatusOr<OpenedCudaBackend> OpenCudaBackend(
    int /*ordinal*/, const GpuMemoryOptions& /*memory*/) {
  return absl::FailedPreconditionError("this build has no CUDA");
}

}  // namespace tensorkv
