// Starts update kernels. For cuda_device.cc alone.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_LAUNCH_H_
#define TENSORKV_KERNELS_CUDA_UPDATE_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/update_work.h"

namespace tensorkv {

// Puts the kernel for `rule` over T on `stream`; returns what the runtime says
// of the launch. T: float, double, int8_t, uint8_t, int16_t, int32_t, int64_t,
// ops::Bool.
template <typename T>
cudaError_t LaunchUpdate(RuleKind rule, const UpdateWork& work,
                         unsigned num_blocks, cudaStream_t stream);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_LAUNCH_H_
