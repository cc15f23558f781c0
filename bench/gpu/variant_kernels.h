// Update kernels that servers do not have, of the updates that the benchmark
// measures; any other launch is that of servers.

#ifndef TENSORKV_BENCH_GPU_VARIANT_KERNELS_H_
#define TENSORKV_BENCH_GPU_VARIANT_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/update_work.h"

namespace tensorkv::bench::gpu {

// Each thread has 32 bytes of each tensor in place of 16.
cudaError_t LaunchPacksOf8(const UpdateLaunch& launch, unsigned num_blocks,
                           cudaStream_t stream);

// The value and the states are asked for when the contributions are there.
cudaError_t LaunchLateLoads(const UpdateLaunch& launch, unsigned num_blocks,
                            cudaStream_t stream);

// Each thread does both.
cudaError_t LaunchPacksOf8LateLoads(const UpdateLaunch& launch,
                                    unsigned num_blocks, cudaStream_t stream);

// An entry of the table is read once for each chunk.
cudaError_t LaunchEntryInRegisters(const UpdateLaunch& launch,
                                   unsigned num_blocks, cudaStream_t stream);

// The largest parameters that a kernel takes, 32,764 bytes, in the alignment of
// tables, which travel with their launches.
using LargeParameters = ParametersOf<32764 / 16 * 16>;
inline constexpr uint32_t kLargeTableBytes = LargeParameters::kMaxTable;
cudaError_t LaunchLargeTable(const UpdateLaunch& launch, unsigned num_blocks,
                             cudaStream_t stream);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_VARIANT_KERNELS_H_
