// The check that bools are 0 or 1. No other dtype has invalid elements.

#ifndef TENSORKV_TENSOR_BOOL_ELEMENTS_H_
#define TENSORKV_TENSOR_BOOL_ELEMENTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensor/dtype.h"

namespace tensorkv {

// Checks that `bytes`, the elements of a tensor of `dtype`, are 0 or 1 if that
// is bool; accepts any bytes of other dtypes. Pure function, thread-safe.
// Errors: InvalidArgument, with the value of the first byte that is neither.
absl::Status CheckBoolElements(DType dtype, absl::string_view bytes);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_BOOL_ELEMENTS_H_
