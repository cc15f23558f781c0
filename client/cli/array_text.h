// Tensors printed as NumPy's str() prints arrays.

#ifndef TENSORKV_CLIENT_CLI_ARRAY_TEXT_H_
#define TENSORKV_CLIENT_CLI_ARRAY_TEXT_H_

#include <string>

#include "tensor/tensor.h"

namespace tensorkv {

// `tensor`, in host memory, as NumPy 1.24 prints it with its default options:
// 8 digits of precision, columns aligned, lines of at most 75 characters, and
// above 1000 elements only the first and last 3 of each dimension. No newline
// at the end. bf16 and f8, which NumPy lacks, are printed like f16.
//
//   [[2. 2. 2.]
//    [2. 2. 2.]]
std::string ArrayText(const Tensor& tensor);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_ARRAY_TEXT_H_
