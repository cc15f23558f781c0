#include <cuda_runtime.h>

#include "bench/gpu/probe_kernels.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kBlocks = 512;

template <uint32_t size>
struct Bytes {
  unsigned char bytes[size];
};

__global__ void Write(uint32_t value, volatile uint32_t* word) {
  *word = value;
  __threadfence_system();
}

__global__ void Read(const uint4* data, size_t count, uint32_t* sum) {
  uint32_t own = 0;
  const size_t first = size_t{blockIdx.x} * kThreads + threadIdx.x;
  for (size_t i = first; i < count; i += size_t{kThreads} * gridDim.x) {
    own += data[i].x ^ data[i].y ^ data[i].z ^ data[i].w;
  }
  if (own == 1) *sum = own;  // or nothing would be read
}

template <typename Parameters>
__global__ void Take(const __grid_constant__ Parameters parameters) {
  if (parameters.bytes[threadIdx.x] == 1) __trap();
}

template <typename Parameters>
cudaError_t LaunchTake(cudaStream_t stream) {
  static Parameters parameters;  // zeros
  void* arguments[] = {&parameters};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&Take<Parameters>),
                          dim3(1), dim3(kThreads), arguments, 0, stream);
}

}  // namespace

cudaError_t LaunchWrite(uint32_t value, uint32_t* word, cudaStream_t stream) {
  Write<<<1, 1, 0, stream>>>(value, word);
  return cudaGetLastError();
}

cudaError_t LaunchRead(const void* data, size_t size_bytes, uint32_t* sum,
                       cudaStream_t stream) {
  Read<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(data),
                                         size_bytes / sizeof(uint4), sum);
  return cudaGetLastError();
}

cudaError_t LaunchWithParameters(bool are_large, cudaStream_t stream) {
  return are_large ? LaunchTake<Bytes<32764>>(stream)
                   : LaunchTake<Bytes<4096>>(stream);
}

}  // namespace tensorkv::bench::gpu
