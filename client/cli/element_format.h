// How the elements of one printed array are written, so that they align.

#ifndef TENSORKV_CLIENT_CLI_ELEMENT_FORMAT_H_
#define TENSORKV_CLIENT_CLI_ELEMENT_FORMAT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace tensorkv {

// Writes the element at an index.
using ElementFormat = std::function<std::string(int64_t index)>;

// A format that gives the elements at `shown`, the indices that will be
// printed, the same width, as NumPy does. The format keeps the tensor.
ElementFormat MakeElementFormat(const Tensor& tensor,
                                const std::vector<int64_t>& shown);

// The one element of a scalar, as NumPy writes it.
// REQUIRES: tensor.num_elements() == 1.
std::string ScalarElementText(const Tensor& tensor);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_ELEMENT_FORMAT_H_
