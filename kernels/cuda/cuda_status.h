// From cudaError_t to absl::Status: the one place that knows both.

#ifndef TENSORKV_KERNELS_CUDA_CUDA_STATUS_H_
#define TENSORKV_KERNELS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns OK · ResourceExhausted (no memory) · FailedPrecondition (no driver,
// no GPU, or none that this build can use) · Unavailable (MeansDeviceFailed) ·
// Internal, for all others. The message is `call`, what was called with which
// sizes, and the error's name and description:
//
//   cudaHostAlloc of 1024 bytes: cudaErrorMemoryAllocation (out of memory)
absl::Status StatusOfCuda(cudaError_t error, absl::string_view call);

// Returns `error`, the outcome of loading a kernel of this build, with
// cudaErrorNoKernelImageForDevice for cudaErrorInvalidDeviceFunction: either
// means that the build has no kernel for the GPU.
cudaError_t NormalizeLoadError(cudaError_t error);

// Returns whether this error means that the process can no longer use the GPU,
// and must be restarted for that.
bool MeansDeviceFailed(cudaError_t error);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_CUDA_STATUS_H_
