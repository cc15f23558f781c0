#include <cuda_runtime.h>

#include "kernels/ops/accumulate.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/assign.h"
#include "kernels/ops/sgd.h"
#include "kernels/ops/sgd_momentum.h"
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

template <typename Op, typename T>
__global__ void Update(Op op, Arrays<T> a) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  if constexpr (Op::kNumStates == 0) {
    a.w[i] = op(a.w[i], a.g[i]);
  } else if constexpr (Op::kNumStates == 1) {
    a.w[i] = op(a.w[i], a.g[i], a.m[i]);
  } else {
    a.w[i] = op(a.w[i], a.g[i], a.m[i], a.v[i]);
  }
}

// Every functor compiles for the device.
template __global__ void Update(ops::Assign<double>, Arrays<double>);
template __global__ void Update(ops::Accumulate<float>, Arrays<float>);
template __global__ void Update(ops::Accumulate<int64_t>, Arrays<int64_t>);
template __global__ void Update(ops::Accumulate<int8_t>, Arrays<int8_t>);
template __global__ void Update(ops::Accumulate<ops::Bool>, Arrays<ops::Bool>);
template __global__ void Update(ops::Sgd<float>, Arrays<float>);
template __global__ void Update(ops::SgdMomentum<float>, Arrays<float>);
template __global__ void Update(ops::Adam<double>, Arrays<double>);
template __global__ void Update(ops::AdamW<float>, Arrays<float>);

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
