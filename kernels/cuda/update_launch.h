// Loads and starts update kernels. For cuda_device.cc alone.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_LAUNCH_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/update_work.h"

namespace tensorkv {

// Puts the launch's kernel over T on `stream`, and returns the runtime's error;
// cudaErrorInvalidDeviceFunction if there is no such kernel. T: float, double,
// int8_t, uint8_t, int16_t, int32_t, int64_t, ops::Bool.
template <typename T>
cudaError_t LaunchUpdate(const UpdateLaunch& launch, unsigned num_blocks,
                         cudaStream_t stream);

// Loads the kernels for `rule` over T to the current device, if the rule takes
// T, so that their first launches need not. Returns the runtime's first error:
// the build may have no code for the device.
template <typename T>
cudaError_t LoadUpdate(RuleKind rule);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_LAUNCH_H_
