// What a server says of its keys and namespaces, as dicts.

#ifndef TENSORKV_PYTHON_CORE_DESCRIBE_H_
#define TENSORKV_PYTHON_CORE_DESCRIBE_H_

#include <pybind11/pybind11.h>

#include <vector>

#include "contract/requests.h"

namespace tensorkv::python {

// REQUIRES: the GIL.
pybind11::list Describe(const std::vector<KeyStatus>& keys);
pybind11::dict Describe(const NamespaceStatus& status);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_DESCRIBE_H_
