// The elements of a tensor, as text and in another dtype.

#ifndef TENSORKV_CLIENT_CLI_ELEMENTS_H_
#define TENSORKV_CLIENT_CLI_ELEMENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Returns the element at `index` of a tensor in host memory: "2.0", "1e-05",
// "nan", "-inf", "-7", "true". A float has as few digits as tell it from its
// neighbours of that dtype; where it is finite, the text is valid JSON.
// REQUIRES: index < num_elements().
std::string ElementText(const Tensor& tensor, int64_t index);

// Returns `tensor`, in host memory, with each element rounded to `dtype`, by
// way of f32 if that is smaller.
// Errors: InvalidArgument (another dtype than a float, unless it is the same) ·
// ResourceExhausted.
absl::StatusOr<Tensor> ConvertedTo(DType dtype, const Tensor& tensor);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_ELEMENTS_H_
