// Elements of a tensor, one at a time.

#ifndef TENSORKV_CLIENT_CLI_ELEMENTS_H_
#define TENSORKV_CLIENT_CLI_ELEMENTS_H_

#include <cstdint>
#include <string>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The element at `index` of a float tensor in host memory, exactly.
// REQUIRES: IsFloat(tensor.dtype()), index < num_elements().
double FloatAt(const Tensor& tensor, int64_t index);

// The element at `index` of an integer or bool tensor in host memory; a bool
// is 0 or 1, and a u64 from 2^63 on is negative, less 2^64.
// REQUIRES: not IsFloat(tensor.dtype()), index < num_elements().
int64_t IntegerAt(const Tensor& tensor, int64_t index);
// The same in decimal digits, also for u64.
std::string IntegerText(const Tensor& tensor, int64_t index);

// `value` rounded to `dtype` and back. f32 and f64 round once, smaller floats
// by way of f32.
// REQUIRES: IsFloat(dtype).
double RoundedTo(DType dtype, double value);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_ELEMENTS_H_
