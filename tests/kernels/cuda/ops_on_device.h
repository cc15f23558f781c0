// Functors of kernels/ops run on a GPU.

#ifndef TENSORKV_TESTS_KERNELS_CUDA_OPS_ON_DEVICE_H_
#define TENSORKV_TESTS_KERNELS_CUDA_OPS_ON_DEVICE_H_

#include <vector>

#include "kernels/ops/adam.h"

namespace tensorkv::testing {

// Why no kernel can run here, or null if one can.
const char* WhyNoDevice();

// Arrays of one update, in host memory, all of one length.
struct AdamArrays {
  std::vector<float> w;
  std::vector<float> g;
  std::vector<float> m;
  std::vector<float> v;
};

// Updates `arrays` in place on the default device. Returns the name of the
// CUDA error, or null.
const char* RunOnDevice(const ops::Adam<float>& adam, AdamArrays& arrays);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_KERNELS_CUDA_OPS_ON_DEVICE_H_
