// What is used of NumPy's C API.

#ifndef TENSORKV_PYTHON_CORE_NUMPY_API_H_
#define TENSORKV_PYTHON_CORE_NUMPY_API_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "absl/types/span.h"
#include "tensor/dtype.h"

namespace tensorkv::python {

// Makes and reads arrays without a call of Python for each. NumPy's headers are
// not used: they would be those of NumPy 1 or 2, and this works with both.
// Every function requires the GIL.

// Returns a new array of the memory at `data`, C-contiguous, which may be
// written and belongs to `owner`; a null owner stands for memory that is never
// freed.
// Throws StatusError (UNIMPLEMENTED) for a dtype that use_numpy was not given.
pybind11::object NewArray(DType dtype, absl::Span<const int64_t> dimensions,
                          void* data, pybind11::handle owner);

// An array of NumPy's own class as it lies in memory.
struct ArrayView {
  pybind11::handle object;
  DType dtype;
  absl::Span<const Py_ssize_t> dimensions;  // the array's own
  void* data;
  bool is_writable;
};

// Returns nothing for any other object, and for an array whose elements are not
// C-contiguous, aligned, and of a dtype that use_numpy was given.
std::optional<ArrayView> ArrayViewOf(pybind11::handle object);

// Adds use_numpy, which takes the capsule with NumPy's C API and the dtypes by
// the names that they have in the store. It is called once, before all else.
void RegisterNumPy(pybind11::module_& module);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_NUMPY_API_H_
