// Turns what a server says of itself and of what it has into dicts.

#ifndef TENSORKV_PYTHON_CORE_DESCRIBE_H_
#define TENSORKV_PYTHON_CORE_DESCRIBE_H_

#include <pybind11/pybind11.h>

#include <vector>

#include "contract/checkpoint_requests.h"
#include "contract/requests.h"
#include "contract/server_requests.h"

namespace tensorkv::python {

// Return the dicts that Python's callers get. REQUIRES: the GIL.
pybind11::list Describe(const std::vector<KeyStatus>& keys);
pybind11::dict Describe(const NamespaceStatus& status);
pybind11::dict Describe(const CheckpointStatus& status);
pybind11::dict Describe(const ServerStatus& status);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_DESCRIBE_H_
