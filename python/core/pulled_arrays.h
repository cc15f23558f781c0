// Pulled values as objects of Python.

#ifndef TENSORKV_PYTHON_CORE_PULLED_ARRAYS_H_
#define TENSORKV_PYTHON_CORE_PULLED_ARRAYS_H_

#include <pybind11/pybind11.h>

#include <vector>

#include "contract/requests.h"

namespace tensorkv::python {

// Returns an array per value, which may be written and has the value's memory:
// its buffer, which small values share, lives as long as the last array in it.
// REQUIRES: the GIL, and that nobody else uses the memory. Throws as NewArray.
pybind11::list ArraysOf(std::vector<Value> values);

// Returns a tuple per value: an array of its bytes, with the value's memory as
// above, the name of its dtype, which NumPy need not have, and its version.
pybind11::list MemoryOf(std::vector<Value> values);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_PULLED_ARRAYS_H_
