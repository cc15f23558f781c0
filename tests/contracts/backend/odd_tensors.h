// Tensors that are unusual in where they lie or what bits they have.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_ODD_TENSORS_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_ODD_TENSORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "tensor/tensor.h"

namespace tensorkv::testing {

// Assigns every pattern of the dtypes of 1 or 2 bytes, which must be kept, and
// those of floats to f32, which must be exact. Errors: DataLoss, naming the
// first that is wrong · the backend's.
absl::Status CheckEveryPattern(Backend& backend);

// Adds a contribution of `size` elements to a value, in place, each a number of
// elements (`shift`, and another) behind the start of its memory, with other
// elements before and behind it.
// Errors: DataLoss, naming the first element that is wrong · the backend's.
absl::Status CheckShiftedSum(Backend& backend, DType dtype, int64_t shift,
                             int64_t size);

// Copies thousands of pieces of odd sizes, at any address, to the device and,
// cut in another way, back. Errors: DataLoss · the backend's.
absl::Status CheckSmallCopies(Backend& backend);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_ODD_TENSORS_H_
