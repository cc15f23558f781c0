// Tensors whose bytes tell where they belong.

#ifndef TENSORKV_TESTS_CLIENT_PATTERNED_TENSOR_H_
#define TENSORKV_TESTS_CLIENT_PATTERNED_TENSOR_H_

#include <cstdint>
#include <string>

#include "tensor/tensor.h"

namespace tensorkv::testing {

// A u8 tensor of `size_bytes` in one dimension. A byte that is lost, doubled
// or out of place shows; `seed` makes tensors different.
inline Tensor Patterned(int64_t size_bytes, int seed = 0) {
  Tensor tensor = *Tensor::Allocate(DType::kU8, Shape({size_bytes}));
  uint32_t state = 12345 + seed;
  for (uint8_t& byte : tensor.mutable_elements<uint8_t>()) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return tensor;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_PATTERNED_TENSOR_H_
