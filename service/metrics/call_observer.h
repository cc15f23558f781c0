// Tells whoever counts calls what the transport sees of them.

#ifndef TENSORKV_SERVICE_METRICS_CALL_OBSERVER_H_
#define TENSORKV_SERVICE_METRICS_CALL_OBSERVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "contract/method.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// CallOutcome says how a call ended.
struct CallOutcome {
  absl::StatusCode code = absl::StatusCode::kOk;
  // The time from the request's arrival to the reply's departure.
  absl::Duration duration;
  // The sizes of the encoded messages; for a stream that broke, what was handed
  // to gRPC.
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
  // The parts of `duration` before and after the store had the call. `arriving`
  // ends when a unary call has a thread, and when all of a stream has come;
  // `leaving` begins with the store's answer, and is 0 for a unary call.
  absl::Duration arriving;
  absl::Duration leaving;
  // The message of the error if the call failed, and its caller; both are good
  // only until Handled returns.
  absl::string_view message;
  const Caller* caller = nullptr;
};

// Sees every call of an implemented method. Thread-safe; must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;

  virtual void Started(Method method) = 0;
  // Is called once for each Started, when the call has ended.
  virtual void Handled(Method method, const CallOutcome& outcome) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_CALL_OBSERVER_H_
