#include <cuda_runtime.h>

#include "tests/kernels/cuda/ops_on_device.h"

namespace tensorkv::testing {
namespace {

template <typename T>
struct Arrays {
  T* w;
  const T* g;
  T* m;
  T* v;
  size_t count;
};

template <typename T>
__global__ void Update(ops::Adam<T> op, Arrays<T> a) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  T states[] = {a.m[i], a.v[i]};
  a.w[i] = op(a.w[i], a.g[i], states);
  a.m[i] = states[0];
  a.v[i] = states[1];
}

// The first error of several calls.
class FirstError {
 public:
  void Add(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  const char* name() const {
    return error_ == cudaSuccess ? nullptr : cudaGetErrorName(error_);
  }

 private:
  cudaError_t error_ = cudaSuccess;
};

constexpr int kThreadsPerBlock = 128;

}  // namespace

const char* WhyNoDevice() {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return num_devices == 0 ? "no CUDA device" : nullptr;
}

const char* RunOnDevice(const ops::Adam<float>& adam, AdamArrays& arrays) {
  const size_t count = arrays.w.size();
  const size_t bytes = count * sizeof(float);
  FirstError error;
  std::vector<float>* const hosts[] = {&arrays.w, &arrays.g, &arrays.m,
                                       &arrays.v};
  float* devices[4] = {};
  for (int i = 0; i < 4; ++i) {
    error.Add(cudaMalloc(&devices[i], bytes));
    error.Add(cudaMemcpy(devices[i], hosts[i]->data(), bytes,
                         cudaMemcpyHostToDevice));
  }
  const int num_blocks = (count + kThreadsPerBlock - 1) / kThreadsPerBlock;
  Update<<<num_blocks, kThreadsPerBlock>>>(
      adam,
      Arrays<float>{devices[0], devices[1], devices[2], devices[3], count});
  error.Add(cudaGetLastError());
  for (int i = 0; i < 4; ++i) {
    error.Add(cudaMemcpy(hosts[i]->data(), devices[i], bytes,
                         cudaMemcpyDeviceToHost));
    error.Add(cudaFree(devices[i]));
  }
  return error.name();
}

}  // namespace tensorkv::testing
