// Reads the elements of tensors of floats as f32, run by run.

#ifndef TENSORKV_CLIENT_COMPRESSION_ELEMENT_RUNS_H_
#define TENSORKV_CLIENT_COMPRESSION_ELEMENT_RUNS_H_

#include <algorithm>
#include <cstddef>

#include "client/compression/encoder_loops.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Elements that are converted at a time; they stay in the nearest cache.
inline constexpr size_t kRunElements = 1024;

// REQUIRES: i8, or a float narrower than f32.
constexpr NarrowFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return NarrowFormat::kF16;
    case DType::kBF16:
      return NarrowFormat::kBF16;
    case DType::kF8E4M3FN:
      return NarrowFormat::kF8E4M3FN;
    case DType::kF8E5M2:
      return NarrowFormat::kF8E5M2;
    default:
      return NarrowFormat::kI8;
  }
}

// Returns the elements [at, at + count) as f32: where they are if they are f32,
// else converted, f64 rounded, in `run`, which has `count` floats.
inline const float* ElementsOf(const Tensor& tensor, size_t at, size_t count,
                               float* run) {
  const EncoderLoops& loops = SupportedEncoderLoops();
  const char* const data = tensor.data() + at * SizeOf(tensor.dtype());
  switch (tensor.dtype()) {
    case DType::kF32:
      return reinterpret_cast<const float*>(data);
    case DType::kF64:
      loops.round(reinterpret_cast<const double*>(data), run, count);
      return run;
    default:
      loops.widen[static_cast<int>(FormatOf(tensor.dtype()))](data, run, count);
      return run;
  }
}

// Calls `visit(elements, at, count)` for every run of the elements [first,
// first + size), which are given as f32. Returns whether all calls have
// returned true; one that returns false does not end the loop.
template <typename Visitor>
bool AllRunsOf(const Tensor& tensor, size_t first, size_t size, Visitor visit) {
  float converted[kRunElements];
  bool is_true = true;
  for (size_t at = first; at < first + size; at += kRunElements) {
    const size_t count = std::min(kRunElements, first + size - at);
    is_true &= visit(ElementsOf(tensor, at, count, converted), at, count);
  }
  return is_true;
}

// Does what AllRunsOf does, for all elements of the tensor.
template <typename Visitor>
bool AllRuns(const Tensor& tensor, Visitor visit) {
  return AllRunsOf(tensor, 0, static_cast<size_t>(tensor.num_elements()),
                   visit);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_ELEMENT_RUNS_H_
