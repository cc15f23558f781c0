// The one family of update kernels, their launch and their loading. Each source
// instantiates both functions for some types, so that they compile side by
// side.

#ifndef TENSORKV_KERNELS_CUDA_UPDATE_KERNEL_CUH_
#define TENSORKV_KERNELS_CUDA_UPDATE_KERNEL_CUH_

#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include "kernels/cuda/update_elements.h"
#include "kernels/cuda/update_launch.h"
#include "kernels/cuda/update_sums.h"
#include "kernels/op_types.h"

namespace tensorkv {

// Updates elements. Each block does one task, or several if there are fewer
// blocks.
template <typename Op, typename T, bool averages, typename Shape = PackShape<T>,
          typename Parameters = UpdateParameters>
__global__ void __launch_bounds__(kThreadsPerBlock)
    UpdateKernel(const __grid_constant__ Parameters parameters) {
  const UpdateWork work = WorkOf(parameters);
  for (uint32_t i = blockIdx.x; i < work.num_tasks(); i += gridDim.x) {
    UpdateChunk<Op, T, averages, Shape>(work, i, threadIdx.x);
  }
}

// Returns the sum of `of_thread` over the threads of the block, in the order of
// kernels/ops/key_sums.h. All threads must call it.
__device__ inline double SumOfBlock(double of_thread) {
  __shared__ double lanes[ops::kSumLanes];
  lanes[threadIdx.x] = of_thread;
  __syncthreads();
  for (unsigned half = ops::kSumLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = lanes[0];
  __syncthreads();  // the lanes may be written again
  return sum;
}

template <typename Op, typename T>
__global__ void __launch_bounds__(kThreadsPerBlock)
    RowKernel(const __grid_constant__ UpdateParameters parameters) {
  const UpdateWork work = WorkOf(parameters);
  for (uint32_t i = blockIdx.x; i < work.num_chunks; i += gridDim.x) {
    const RowRange rows = RowsOf(work, i);
    for (uint64_t row = rows.begin; row < rows.end; ++row) {
      const double sum =
          SumOfBlock(SumLaneOfRow<Op, T>(work, i, row, threadIdx.x));
      if (threadIdx.x == 0) UpdateRow<Op, T>(work, i, row, sum);
    }
  }
}

template <typename Op, typename T>
__global__ void __launch_bounds__(kThreadsPerBlock)
    ColumnPartKernel(const __grid_constant__ UpdateParameters parameters) {
  const UpdateWork work = WorkOf(parameters);
  for (uint32_t i = blockIdx.x; i < work.num_chunks; i += gridDim.x) {
    SumColumnPart<Op, T>(work, i, threadIdx.x);
  }
}

template <typename Op, typename T>
__global__ void __launch_bounds__(kThreadsPerBlock)
    ColumnKernel(const __grid_constant__ UpdateParameters parameters) {
  const UpdateWork work = WorkOf(parameters);
  for (uint32_t i = blockIdx.x; i < work.num_chunks; i += gridDim.x) {
    UpdateColumn<Op, T>(work, i, threadIdx.x);
  }
}

template <typename Op, typename T>
__global__ void __launch_bounds__(kThreadsPerBlock)
    SumKernel(const __grid_constant__ UpdateParameters parameters) {
  const UpdateWork work = WorkOf(parameters);
  for (uint32_t i = blockIdx.x; i < work.num_chunks; i += gridDim.x) {
    double sums[kNumSums<Op>] = {};
    AddToLane<Op, T>(work, i, threadIdx.x, sums);
    for (double& sum : sums) sum = SumOfBlock(sum);
    if (threadIdx.x == 0) StoreChunkSums<Op>(work, i, sums);
  }
}

template <typename Op>
__global__ void __launch_bounds__(kThreadsPerBlock)
    CombineKernel(const __grid_constant__ UpdateParameters parameters) {
  const UpdateWork work = WorkOf(parameters);
  for (uint32_t i = blockIdx.x; i < work.num_chunks; i += gridDim.x) {
    double sums[kNumSums<Op>] = {};
    AddChunksToLane<Op>(work, i, threadIdx.x, sums);
    for (double& sum : sums) sum = SumOfBlock(sum);
    if (threadIdx.x == 0) StoreTensorSums<Op>(work, i, sums);
  }
}

// Calls `visit` with the kernel of each step that the functor has.
template <typename Op, typename T, typename Visitor>
void VisitKernels(Visitor visit) {
  visit(LaunchStep::kUpdate, UpdateKernel<Op, T, false>);
  visit(LaunchStep::kUpdateAveraged, UpdateKernel<Op, T, true>);
  if constexpr (ops::kHasRowState<Op>) {
    visit(LaunchStep::kRows, RowKernel<Op, T>);
  }
  if constexpr (ops::kHasColumnState<Op>) {
    visit(LaunchStep::kColumnParts, ColumnPartKernel<Op, T>);
    visit(LaunchStep::kColumns, ColumnKernel<Op, T>);
  }
  if constexpr (kNumSums < Op >> 0) {
    visit(LaunchStep::kSum, SumKernel<Op, T>);
    visit(LaunchStep::kCombine, CombineKernel<Op>);
  }
}

// Puts a kernel on the stream, with the launch's table in its parameters if the
// table travels.
template <typename Parameters>
cudaError_t LaunchKernel(void (*kernel)(Parameters), const UpdateLaunch& launch,
                         unsigned num_blocks, cudaStream_t stream) {
  Parameters parameters;
  parameters.work = launch.work;
  if (launch.table != nullptr) {
    std::memcpy(parameters.table, launch.table, launch.table_bytes);
  }
  void* arguments[] = {&parameters};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                          dim3(num_blocks), dim3(kThreadsPerBlock), arguments,
                          0, stream);
}

template <typename T>
cudaError_t LaunchUpdate(const UpdateLaunch& launch, unsigned num_blocks,
                         cudaStream_t stream) {
  cudaError_t error = cudaErrorInvalidDeviceFunction;
  VisitOpType<T>(launch.rule, [&](auto type) {
    using Op = typename decltype(type)::Op;
    VisitKernels<Op, T>([&](LaunchStep step, auto kernel) {
      if (step == launch.step) {
        error = LaunchKernel(kernel, launch, num_blocks, stream);
      }
    });
  });
  return error;
}

template <typename T>
cudaError_t LoadUpdate(RuleKind rule) {
  cudaError_t error = cudaSuccess;
  VisitOpType<T>(rule, [&](auto type) {
    using Op = typename decltype(type)::Op;
    VisitKernels<Op, T>([&](LaunchStep, auto kernel) {
      if (error != cudaSuccess) return;
      cudaFuncAttributes unused;
      error = cudaFuncGetAttributes(&unused, kernel);
    });
  });
  return error;
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_UPDATE_KERNEL_CUH_
