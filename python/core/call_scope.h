// What bounds the calls that a thread of Python makes.

#ifndef TENSORKV_PYTHON_CORE_CALL_SCOPE_H_
#define TENSORKV_PYTHON_CORE_CALL_SCOPE_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "absl/time/time.h"
#include "client/canceller.h"
#include "client/worker_options.h"

namespace tensorkv::python {

// Bounds of one call.
struct CallBounds {
  SharedCanceller canceller;
  // In place of the client's own timeout, where it is set.
  std::optional<absl::Duration> timeout;
};

// While a thread has entered it, it bounds all calls that the thread begins:
// they end when somebody cancels it, on whatever thread, and when its time is
// over, which begins when it is made. Scopes nest: the innermost counts.
class CallScope {
 public:
  // In seconds; without it calls have the timeout of their client. Throws
  // StatusError for a number that is no time.
  explicit CallScope(std::optional<double> timeout);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // What bounds a call that this thread begins now.
  static CallBounds Current();

  static void Register(pybind11::module_& module);

 private:
  void Enter();
  void Exit();
  void Cancel();

  const SharedCanceller canceller_ = std::make_shared<Canceller>();
  // Since the clock of SteadyNow began.
  std::optional<absl::Duration> end_;
  // The one that counted before, while this is entered.
  CallScope* outer_ = nullptr;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_CALL_SCOPE_H_
