// NumPy's .npy files, as numpy.save writes them.
//
// The format is NumPy Enhancement Proposal 1: "\x93NUMPY", a version, the
// length of a header, the header (the text of a Python dict with descr,
// fortran_order and shape), and the elements.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CLIENT_CLI_NPY_H_
#define TENSORKV_CLIENT_CLI_NPY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Reads the whole of a .npy file of version 1 or 2, in C order and little
// endian. The tensor copies the elements.
// Errors: InvalidArgument for anything else, saying what and where.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes);

// Writes `tensor`, in host memory, as a .npy file of version 1. bf16 and f8,
// which NumPy lacks, become f32, which holds all their values.
// Errors: ResourceExhausted (no memory for the wider copy).
absl::StatusOr<std::string> FormatNpy(const Tensor& tensor);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_NPY_H_
