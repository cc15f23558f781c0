#include "python/core/inbox.h"

#include <sys/eventfd.h>

#include <exception>
#include <memory>

#include "absl/status/status.h"
#include "python/core/status_error.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

// The exception that the error becomes.
py::object RaisedExceptionOf(py::error_already_set& error) {
  error.restore();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return py::reinterpret_steal<py::object>(value);
}

}  // namespace

Inbox::Inbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_.is_open()) return;
  throw StatusError(absl::ResourceExhaustedError("no file descriptor is left"));
}

void Inbox::Put(uint64_t call, Outcome outcome) {
  MutexLock lock(&mutex_);
  outcomes_.emplace_back(call, std::move(outcome));
  eventfd_write(event_.get(), 1);
}

py::list Inbox::Take() {
  std::vector<std::pair<uint64_t, Outcome>> outcomes;
  {
    MutexLock lock(&mutex_);
    outcomes.swap(outcomes_);
    eventfd_t count = 0;
    eventfd_read(event_.get(), &count);
  }
  py::list taken;
  for (auto& [call, outcome] : outcomes) {
    py::object result = py::none(), exception = py::none();
    try {
      result = std::move(outcome)();
    } catch (const StatusError& error) {
      exception = ExceptionOf(error.status());
    } catch (const UnusableError& error) {
      exception = ExceptionOf(error);
    } catch (py::error_already_set& error) {
      exception = RaisedExceptionOf(error);
    } catch (const std::exception& error) {
      // Such as no memory; the other calls have their outcomes all the same.
      exception = ExceptionOf(absl::InternalError(error.what()));
    }
    taken.append(py::make_tuple(call, result, exception));
  }
  return taken;
}

void Inbox::Register(py::module_& module) {
  py::class_<Inbox, std::shared_ptr<Inbox>>(module, "Inbox")
      .def(py::init<>())
      .def("fileno", [](const Inbox& inbox) { return inbox.event_.get(); })
      .def("take", &Inbox::Take);
}

}  // namespace tensorkv::python
