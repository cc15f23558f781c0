#include "python/core/status_error.h"

#include <pybind11/stl.h>

#include <map>
#include <optional>

#include "contract/reason.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

void SetError(const py::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())),
                  error.ptr());
}

py::module_ Errors() { return py::module_::import("tensorkv.errors"); }

}  // namespace

py::object ExceptionOf(const absl::Status& status) {
  py::object reason = py::none();
  std::map<std::string, std::string> metadata;
  if (std::optional<ErrorInfo> info = ErrorInfoOf(status)) {
    if (info->reason != Reason::kUnspecified) {
      reason = py::str(std::string(ReasonName(info->reason)));
    }
    metadata = std::move(info->metadata);
  }
  return Errors().attr("from_status")(absl::StatusCodeToString(status.code()),
                                      std::string(status.message()), reason,
                                      metadata);
}

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      SetError(ExceptionOf(error.status()));
    } catch (const UnusableError& error) {
      SetError(Errors().attr(error.class_name())(error.what()));
    }
  });
}

}  // namespace tensorkv::python
