// The memory of Python objects as tensors, where it is.

#ifndef TENSORKV_PYTHON_CORE_PYTHON_MEMORY_H_
#define TENSORKV_PYTHON_CORE_PYTHON_MEMORY_H_

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>

#include "absl/strings/string_view.h"
#include "client/destination.h"
#include "contract/requests.h"
#include "tensor/tensor.h"

namespace tensorkv::python {

// Exports of Python's buffer protocol, kept until the last owner has gone. The
// owner may go on any thread, with the GIL or without: what goes without it is
// released by Python's main thread soon after.
class Exports {
 public:
  Exports() = default;
  ~Exports();
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

  // REQUIRES: the GIL. Throws StatusError (INVALID_ARGUMENT) for memory that is
  // not contiguous or, where it is to be written, read-only; TypeError for an
  // object without buffer protocol.
  const Py_buffer& Add(pybind11::handle object, bool is_written,
                       absl::string_view key);

 private:
  // Some exporters let fields of a view point into the view: it stays where it
  // was filled in.
  std::deque<Py_buffer> buffers_;
};

using SharedExports = std::shared_ptr<Exports>;

// The elements of `array`, an object with the buffer protocol or a pair of one
// and the name of its dtype, for dtypes that the protocol does not know. They
// are not copied: the tensor's buffer shares `exports`.
// REQUIRES: the GIL. Throws as Exports::Add, and for an unknown dtype or a
// foreign byte order.
Tensor TensorOf(pybind11::handle array, absl::string_view key,
                const SharedExports& exports);
Destination DestinationOf(pybind11::handle array, absl::string_view key,
                          Exports& exports);

// A pulled tensor as an object with the buffer protocol, whose memory is the
// tensor's. REQUIRES: nobody else uses the tensor's memory.
class PulledArray {
 public:
  explicit PulledArray(Value value) : value_(std::move(value)) {}

  static void Register(pybind11::module_& module);

 private:
  pybind11::buffer_info buffer();

  Value value_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_PYTHON_MEMORY_H_
