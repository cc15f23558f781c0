// The extension module tensorkv._core.

#include <pybind11/pybind11.h>

#include "base/version.h"
#include "python/core/call_scope.h"
#include "python/core/numpy_api.h"
#include "python/core/status_error.h"
#include "python/core/store.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The calls of the C++ client; use the package tensorkv.";
  module.attr("version") = tensorkv::kVersion;
  tensorkv::python::RegisterErrors();
  tensorkv::python::RegisterNumPy(module);
  tensorkv::python::CallScope::Register(module);
  tensorkv::python::Store::Register(module);
}
