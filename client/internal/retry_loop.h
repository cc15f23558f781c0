// Repeats a call while the other side is Unavailable.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRY_LOOP_H_
#define TENSORKV_CLIENT_INTERNAL_RETRY_LOOP_H_

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensorkv {

// Pauses between attempts: uniform between zero and a bound that doubles from
// `initial` up to `maximum` ("full jitter"), so that clients that failed
// together do not come back together.
struct Backoff {
  absl::Duration initial = absl::Milliseconds(20);
  absl::Duration maximum = absl::Seconds(1);
  // How long a name is looked up that cannot be resolved: it may be about to
  // appear, but more often it is misspelt.
  absl::Duration unresolved = absl::Seconds(5);
  // Whether to wait for a server that is not there at the first attempt.
  bool waits_for_server = true;
};

// What a retry loop takes from outside. Each function is thread-safe.
struct RetryEnvironment {
  // Monotonic time since an arbitrary start.
  std::function<absl::Duration()> now;
  std::function<void(absl::Duration)> sleep;
  // Uniform in [0, 1).
  std::function<double()> random;
};

// The steady clock, a random generator, and a sleep during which gRPC makes the
// connections of this process anew.
RetryEnvironment SystemRetryEnvironment();

// Makes `attempt(time_left)` until it returns neither Unavailable nor a
// ResourceExhausted that says when to try again (contract/retry_delay.h), or
// the next pause would reach the end of `timeout`, or either side says that it
// is no use. Returns what the last attempt returned. The first attempt is made
// whatever the timeout.
//
// ResourceExhausted says that nothing has happened, but only of that attempt:
// after one that was Unavailable, and may have been made, it counts as
// Unavailable too.
absl::Status RetryLoop(const Backoff& backoff,
                       const RetryEnvironment& environment,
                       absl::Duration timeout,
                       absl::FunctionRef<absl::Status(absl::Duration)> attempt);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRY_LOOP_H_
