// Kernels that do next to nothing, for what surrounds them to be measured.

#ifndef TENSORKV_BENCH_GPU_PROBE_KERNELS_H_
#define TENSORKV_BENCH_GPU_PROBE_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tensorkv::bench::gpu {

// Writes `value` to *word, which may be page-locked memory of the host.
cudaError_t LaunchWrite(uint32_t value, uint32_t* word, cudaStream_t stream);

// Reads memory, of the device or page-locked, and writes what depends on it to
// *sum. REQUIRES: aligned to 16 bytes, as is the size.
cudaError_t LaunchRead(const void* data, size_t size_bytes, uint32_t* sum,
                       cudaStream_t stream);

// Has parameters of 4 KiB, or of as many bytes as a kernel takes.
cudaError_t LaunchWithParameters(bool are_large, cudaStream_t stream);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_PROBE_KERNELS_H_
