// The header of a .npy file: what its elements are.

#ifndef TENSORKV_CLIENT_CLI_NPY_HEADER_H_
#define TENSORKV_CLIENT_CLI_NPY_HEADER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv {

struct NpyHeader {
  DType dtype = DType::kF32;
  Shape shape;
};

// Reads the dict, such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// with its keys in any order.
// Errors: InvalidArgument (malformed, a dtype that TensorKV lacks, big-endian
// elements, Fortran order, a shape that Shape does not take).
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

// Returns the dict, without the padding that follows it in a file. REQUIRES:
// NumPy has the dtype: not bf16 and not f8.
std::string FormatNpyHeader(const NpyHeader& header);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_NPY_HEADER_H_
