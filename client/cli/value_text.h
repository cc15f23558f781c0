// Values as text for people.

#ifndef TENSORKV_CLIENT_CLI_VALUE_TEXT_H_
#define TENSORKV_CLIENT_CLI_VALUE_TEXT_H_

#include <string>

#include "tensor/tensor.h"

namespace tensorkv {

// A line for each row of `tensor`, in host memory: its elements along the last
// dimension, blanks between them. Of more than 8 rows, and of more than 8
// elements in a row, the first 3 and the last 3 with "..." between them.
// Nothing for a tensor without elements.
//
//   2.0 2.0 2.0
//   2.0 2.0 2.0
std::string ValueText(const Tensor& tensor);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_VALUE_TEXT_H_
