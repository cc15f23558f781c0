// Turns pulled values into objects of Python.

#ifndef TENSORKV_PYTHON_CORE_PULLED_ARRAYS_H_
#define TENSORKV_PYTHON_CORE_PULLED_ARRAYS_H_

#include <pybind11/pybind11.h>

#include <utility>
#include <vector>

#include "contract/requests.h"

namespace tensorkv::python {

// Returns an array for each value. It is writable and has the value's memory:
// the buffer, which small values share, lives as long as the last array in it.
// REQUIRES: the GIL, and that nobody else uses the memory. Throws as NewArray.
pybind11::list ArraysOf(std::vector<Value> values);

// A pulled tensor as an object with the buffer protocol, whose memory is the
// tensor's. REQUIRES: nobody else uses the tensor's memory.
class PulledArray {
 public:
  explicit PulledArray(Value value) : value_(std::move(value)) {}

  // Adds the class PulledArray. REQUIRES: the GIL.
  static void Register(pybind11::module_& module);

 private:
  pybind11::buffer_info buffer();

  Value value_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_PULLED_ARRAYS_H_
