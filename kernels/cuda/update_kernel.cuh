// The one family of update kernels, their launch and their loading. Each source
// instantiates both functions for some types, so that they compile side by
// side.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_KERNEL_CUH_
#define TENSORKV_KERNELS_CUDA_UPDATE_KERNEL_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/update_elements.h"
#include "kernels/cuda/update_launch.h"
#include "kernels/op_types.h"

namespace tensorkv {

// Blocks take the chunks in turns: a tensor larger than a chunk is shared by
// several, many small tensors are one block's.
template <typename Op, typename T>
__global__ void __launch_bounds__(kThreadsPerBlock)
    UpdateKernel(const __grid_constant__ UpdateWork work) {
  for (uint32_t i = blockIdx.x; i < work.num_chunks; i += gridDim.x) {
    UpdateChunk<Op, T>(work, i, threadIdx.x);
  }
}

template <typename T>
cudaError_t LaunchUpdate(RuleKind rule, const UpdateWork& work,
                         unsigned num_blocks, cudaStream_t stream) {
  cudaError_t error = cudaErrorInvalidDeviceFunction;
  VisitOpType<T>(rule, [&](auto type) {
    using Op = typename decltype(type)::Op;
    UpdateKernel<Op, T><<<num_blocks, kThreadsPerBlock, 0, stream>>>(work);
    error = cudaGetLastError();
  });
  return error;
}

template <typename T>
cudaError_t LoadUpdate(RuleKind rule) {
  cudaError_t error = cudaSuccess;
  VisitOpType<T>(rule, [&](auto type) {
    using Op = typename decltype(type)::Op;
    cudaFuncAttributes unused;
    error = cudaFuncGetAttributes(&unused, UpdateKernel<Op, T>);
  });
  return error;
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_KERNEL_CUH_
