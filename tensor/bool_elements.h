// The check of what no other dtype needs: that elements are of their type.

#ifndef TENSORKV_TENSOR_BOOL_ELEMENTS_H_
#define TENSORKV_TENSOR_BOOL_ELEMENTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensor/dtype.h"

namespace tensorkv {

// Whether `bytes` are elements of `dtype`: those of bool are 0 or 1; those of
// other dtypes may have any bits. Pure function, thread-safe.
// Errors: InvalidArgument, with the first element that is none.
absl::Status CheckElements(DType dtype, absl::string_view bytes);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_BOOL_ELEMENTS_H_
