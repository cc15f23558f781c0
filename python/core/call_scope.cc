#include "python/core/call_scope.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>

#include "client/internal/steady_now.h"
#include "python/core/arguments.h"
#include "python/core/gil_release.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

thread_local CallScope* innermost = nullptr;

}  // namespace

CallScope::CallScope(std::optional<double> timeout) {
  if (timeout) end_ = SteadyNow() + SecondsOf("timeout", *timeout);
}

CallBounds CallScope::Current() {
  if (innermost == nullptr) {
    return {.canceller = std::make_shared<Canceller>()};
  }
  CallBounds bounds = {.canceller = innermost->canceller_};
  if (innermost->end_) {
    bounds.timeout =
        std::max(*innermost->end_ - SteadyNow(), absl::ZeroDuration());
  }
  return bounds;
}

void CallScope::Enter() {
  outer_ = innermost;
  if (outer_ != nullptr) canceller_ = outer_->canceller_;
  innermost = this;
}

void CallScope::Exit() { innermost = outer_; }

void CallScope::Cancel() {
  const GilRelease release;
  canceller_->Cancel();
}

void CallScope::Register(py::module_& module) {
  py::class_<CallScope>(module, "CallScope")
      .def(py::init<std::optional<double>>(), py::arg("timeout") = py::none())
      .def("cancel", &CallScope::Cancel)
      .def("__enter__",
           [](py::object self) {
             self.cast<CallScope&>().Enter();
             return self;
           })
      .def("__exit__", [](CallScope& scope, const py::args&) { scope.Exit(); });
}

}  // namespace tensorkv::python
