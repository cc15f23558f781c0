// From cudaError_t to absl::Status: the one place that knows both.

#ifndef TENSORKV_KERNELS_CUDA_CUDA_STATUS_H_
#define TENSORKV_KERNELS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// OK · ResourceExhausted (no memory) · FailedPrecondition (no driver, no GPU,
// or none that this build can use) · Unavailable (MeansDeviceFailed) ·
// Internal, for all others. The message is `call`, what was called with which
// sizes, and the error's name and description:
//
//   cudaHostAlloc of 1024 bytes: cudaErrorMemoryAllocation (out of memory)
absl::Status StatusOfCuda(cudaError_t error, absl::string_view call);

// What it means that a kernel of this build could not be loaded: a GPU for
// which the build has none gives one error or another, by how the build left it
// out.
cudaError_t OutcomeOfLoading(cudaError_t error);

// Whether after this error nothing of the process's use of the GPU works any
// more, until the process ends.
bool MeansDeviceFailed(cudaError_t error);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_CUDA_STATUS_H_
