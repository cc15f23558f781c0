#include "python/core/status_error.h"

#include <cxxabi.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "contract/reason.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

void SetError(const py::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())),
                  error.ptr());
}

// What other servers say need not be UTF-8.
py::str TextOf(absl::string_view text) {
  PyObject* const decoded = PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::module_ Errors() { return py::module_::import("tensorkv.errors"); }

// Return the exception that an error becomes. REQUIRES: the GIL.
py::object ExceptionOf(const absl::Status& status) {
  py::object reason = py::none();
  py::dict metadata;
  if (std::optional<ErrorInfo> info = ErrorInfoOf(status)) {
    if (info->reason != Reason::kUnspecified) {
      reason = py::str(std::string(ReasonName(info->reason)));
    }
    for (const auto& [name, text] : info->metadata) {
      metadata[TextOf(name)] = TextOf(text);
    }
  }
  return Errors().attr("from_status")(absl::StatusCodeToString(status.code()),
                                      TextOf(status.message()), reason,
                                      metadata);
}

py::object ExceptionOf(const UnusableError& error) {
  return Errors().attr(error.class_name())(error.what());
}

template <typename Error>
[[noreturn]] void Raise(const Error& error) {
  try {
    SetError(ExceptionOf(error));
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
  throw RaisedError();
}

}  // namespace

void RaiseInPython(const absl::Status& status) { Raise(status); }
void RaiseInPython(const UnusableError& error) { Raise(error); }

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      SetError(ExceptionOf(error.status()));
    } catch (const UnusableError& error) {
      SetError(ExceptionOf(error));
    }
  });
}

}  // namespace tensorkv::python
