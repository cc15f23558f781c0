// The lines of the log about single calls.

#ifndef TENSORKV_SERVICE_SERVER_CALL_LOG_H_
#define TENSORKV_SERVICE_SERVER_CALL_LOG_H_

#include "absl/time/time.h"
#include "service/metrics/call_observer.h"
#include "service/server/event_log.h"

namespace tensorkv {

// A CallObserver that passes everything on, and logs the calls that took
// `slow_call` or longer, and those that failed by a fault of the server
// (Unknown, Internal, DataLoss). Thread-safe.
class CallLog final : public CallObserver {
 public:
  // Takes objects that outlive it.
  CallLog(CallObserver* inner, EventLog* log, absl::Duration slow_call)
      : inner_(*inner), log_(*log), slow_call_(slow_call) {}

  void Started(Method method) override { inner_.Started(method); }
  void Handled(Method method, const CallOutcome& outcome) override;

 private:
  CallObserver& inner_;
  EventLog& log_;
  const absl::Duration slow_call_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CALL_LOG_H_
