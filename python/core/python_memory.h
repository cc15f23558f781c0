// Turns the memory of Python objects into tensors, without a copy.

#ifndef TENSORKV_PYTHON_CORE_PYTHON_MEMORY_H_
#define TENSORKV_PYTHON_CORE_PYTHON_MEMORY_H_

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/destination.h"
#include "python/core/numpy_api.h"
#include "tensor/tensor.h"

namespace tensorkv::python {

// Objects that are held so that their memory stays where it is: exports of the
// buffer protocol, and arrays of NumPy.
struct HeldObjects {
  bool is_empty() const { return buffers.empty() && arrays.empty(); }

  // Some exporters let fields of a view point into the view: it stays where it
  // was filled in.
  std::deque<Py_buffer> buffers;
  std::vector<PyObject*> arrays;
};

// Keeps the memory of Python objects where it is until this is destroyed, on
// any thread, with the GIL or without. What is destroyed without it is released
// by Python's main thread soon after or, where that waits for something else,
// by the thread that makes the next Exports.
class Exports {
 public:
  // REQUIRES: the GIL.
  Exports();
  ~Exports();
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

  // Exports the memory of `object`, and returns the view, which is valid while
  // this lives. `key` is for errors. REQUIRES: the GIL. Throws StatusError
  // (INVALID_ARGUMENT) for memory that is not contiguous or, where it is to be
  // written, read-only; TypeError for an object without buffer protocol.
  const Py_buffer& Add(pybind11::handle object, bool is_written,
                       absl::string_view key);
  // REQUIRES: the GIL.
  void Add(const ArrayView& array);

 private:
  HeldObjects held_;
};

using SharedExports = std::shared_ptr<Exports>;

// Returns the elements of `array`, an object with the buffer protocol or a pair
// of one and the name of its dtype, for dtypes that the protocol does not know.
// They are not copied: the tensor's buffer shares `exports`.
// REQUIRES: the GIL. Throws as Exports::Add, and for an unknown dtype or a
// foreign byte order.
Tensor TensorOf(pybind11::handle array, absl::string_view key,
                const SharedExports& exports);
// Returns the memory of `array`, as TensorOf takes it, for a value to be
// written to. It is valid while `exports` lives. REQUIRES: the GIL. Throws as
// TensorOf.
Destination DestinationOf(pybind11::handle array, absl::string_view key,
                          Exports& exports);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_PYTHON_MEMORY_H_
