// Bounds the calls that a thread of Python makes.

#ifndef TENSORKV_PYTHON_CORE_CALL_SCOPE_H_
#define TENSORKV_PYTHON_CORE_CALL_SCOPE_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "absl/time/time.h"
#include "client/canceller.h"
#include "client/worker_options.h"

namespace tensorkv::python {

// Bounds one call.
using CallBounds = VerbOptions;

// While a thread has entered a CallScope, the scope bounds all calls that the
// thread begins: they end when somebody cancels the scope, on whatever thread,
// and when its time is over, which begins in the constructor. Scopes nest, and
// are left in the reverse order: the time of the innermost counts, and whoever
// cancels one cancels the scopes around it and within it too.
class CallScope {
 public:
  // `timeout` is in seconds; without it calls have the timeout of their client.
  // Throws StatusError for a number that is no time.
  explicit CallScope(std::optional<double> timeout);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // Returns the bounds of a call that this thread begins now. They always have
  // a canceller.
  static CallBounds Current();

  // Adds the class CallScope, a context manager. REQUIRES: the GIL.
  static void Register(pybind11::module_& module);

 private:
  void Enter();
  void Exit();
  void Cancel();

  // Once entered, that of the scope around it, if there is one.
  SharedCanceller canceller_ = std::make_shared<Canceller>();
  // By the clock of SteadyNow.
  std::optional<absl::Duration> end_;
  // The scope that counted before this one was entered.
  CallScope* outer_ = nullptr;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_CALL_SCOPE_H_
