// The norm of a contribution in host memory, and the same contribution with
// another norm.
//
// Pure functions. Same elements, same bits: whatever the instruction set, sums
// have one order.

#ifndef TENSORKV_KERNELS_GRADIENT_NORM_H_
#define TENSORKV_KERNELS_GRADIENT_NORM_H_

#include "tensor/packing.h"
#include "tensor/tensor.h"

namespace tensorkv {

struct GradientNorm {
  // Whether all elements are numbers and none is infinite.
  bool is_finite = true;
  // The root of the sum of the squares, in f64; infinite if it exceeds f64,
  // which takes elements of f64. NaN or infinite if is_finite is false.
  double norm = 0;
};

// Returns the norm of elements at any address, over all of them.
// REQUIRES: a float dtype.
GradientNorm NormOf(TensorView elements);

// Returns the norm of what `payload` decodes to, in a time that the payload's
// size bounds, however many elements it decodes to. REQUIRES: the payload has
// been checked against the packing.
GradientNorm NormOf(const Packing& packing, const char* payload);

// Multiplies each element in place by `factor`: in f64, rounded to f32 (unless
// the elements are f64) and then to their dtype, to nearest even.
// REQUIRES: a float dtype.
void Scale(double factor, MutableTensorView elements);

// Scales what `payload` decodes to: multiplies the values of top-k and
// random-k, in other packings the scales, which stay above 0. REQUIRES: the
// payload has been checked against the packing.
void Scale(double factor, Packing& packing, char* payload);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_GRADIENT_NORM_H_
