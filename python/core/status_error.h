// Statuses as Python's exceptions.

#ifndef TENSORKV_PYTHON_CORE_STATUS_ERROR_H_
#define TENSORKV_PYTHON_CORE_STATUS_ERROR_H_

#include <pybind11/pybind11.h>

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorkv::python {

// Becomes the class of tensorkv.errors that stands for the status' code, with
// its reason and metadata, where it comes back to Python.
class StatusError : public std::exception {
 public:
  explicit StatusError(absl::Status status)
      : status_(std::move(status)), text_(status_.message()) {}

  const char* what() const noexcept override { return text_.c_str(); }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  std::string text_;
};

// Becomes tensorkv.errors.ClosedError or, after a fork, ForkedError.
class UnusableError : public std::exception {
 public:
  UnusableError(const char* class_name, const char* text)
      : class_name_(class_name), text_(text) {}

  const char* what() const noexcept override { return text_; }
  const char* class_name() const { return class_name_; }

 private:
  const char* const class_name_;
  const char* const text_;
};

// Is thrown where the error of a call is set as a Python exception already. It
// tells such errors from the exceptions of signal handlers.
class RaisedError : public pybind11::error_already_set {};

// Sets the exception that the error becomes, and throws RaisedError. pybind11
// would translate other errors where it handles them: a thread that the
// interpreter ends meanwhile, by unwinding its stack, would abort the process
// there. Here such a thread stays until the process has ended, as in
// GilRelease. REQUIRES: the GIL, and that no exception is being handled.
[[noreturn]] void RaiseInPython(const absl::Status& status);
[[noreturn]] void RaiseInPython(const UnusableError& error);

// Makes pybind11 translate both.
void RegisterErrors();

inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_STATUS_ERROR_H_
