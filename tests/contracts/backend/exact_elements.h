// Elements of every dtype as exact numbers, written without the conversions
// under test: formats are decoded field by field, and rounding looks for the
// nearest value in the list of all values.

#ifndef TENSORKV_TESTS_CONTRACTS_EXACT_ELEMENTS_H_
#define TENSORKV_TESTS_CONTRACTS_EXACT_ELEMENTS_H_

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv::testing {

// Element `index` of a float tensor.
double FloatAt(const Tensor& tensor, int64_t index);

// Element `index` of an integer or bool tensor.
int64_t IntegerAt(const Tensor& tensor, int64_t index);

// `value` rounded to the nearest value of the float format, ties to even; too
// large ones become infinity, or NaN in f8e4m3fn.
double RoundTo(DType dtype, double value);

// Sets element `index` to `value`, rounded.
void SetFloat(Tensor& tensor, int64_t index, double value);

// Sets element `index` to the lowest bits of `value`; bool to whether it is 0.
void SetInteger(Tensor& tensor, int64_t index, int64_t value);

// Half the distance of the format's values near `value`: how far rounding to
// it moves at most.
double HalfStep(DType dtype, double value);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_EXACT_ELEMENTS_H_
