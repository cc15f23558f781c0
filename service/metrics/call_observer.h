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
  // From the request's arrival to the reply's departure.
  absl::Duration duration;
  // The sizes of the encoded messages; for a stream that broke, what was handed
  // to gRPC.
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
  // Says how much of `duration` it took until the store got it (until it had a
  // thread; of a stream until all of it had come), and from the store's answer
  // on (of a stream, until it was on its way).
  absl::Duration arriving;
  absl::Duration leaving;
  // The error that the call was answered with if it failed, and its caller;
  // both for the time of Handled.
  absl::string_view message;
  const Caller* caller = nullptr;
};

// Sees every call of an implemented method. Thread-safe; must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;

  virtual void Started(Method method) = 0;
  // Once for every Started.
  virtual void Handled(Method method, const CallOutcome& outcome) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_CALL_OBSERVER_H_
