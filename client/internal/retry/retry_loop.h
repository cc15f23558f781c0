// Repeats a call while the other side is Unavailable.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRY_RETRY_LOOP_H_
#define TENSORKV_CLIENT_INTERNAL_RETRY_RETRY_LOOP_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/canceller.h"

namespace tensorkv {

// Pauses between attempts: uniform between zero and a bound that doubles from
// `initial` up to `maximum` ("full jitter"), so that clients that failed
// together do not come back together.
struct Backoff {
  absl::Duration initial = absl::Milliseconds(20);
  absl::Duration maximum = absl::Seconds(1);
  // Bounds how long a name is looked up that cannot be resolved: it may be
  // about to appear, but more often it is misspelt.
  absl::Duration unresolved = absl::Seconds(5);
  // True if calls wait for a server that is not there at the first attempt.
  bool waits_for_server = true;
};

// RetryEnvironment holds what a retry loop takes from outside. Each function is
// thread-safe.
struct RetryEnvironment {
  // Returns the monotonic time since an arbitrary start.
  std::function<absl::Duration()> now;
  // Sleeps so long, or until somebody cancels. A null canceller stands for one
  // that nobody uses.
  std::function<void(absl::Duration, const std::shared_ptr<Canceller>&)> sleep;
  // Pauses for callers that do not wait: runs `then` afterwards, on another
  // thread; on this one, after a sleep, where the system has no thread for
  // that.
  std::function<void(absl::Duration, const std::shared_ptr<Canceller>&,
                     absl::AnyInvocable<void() &&> then)>
      run_after = {};
  // Returns a number that is uniform in [0, 1).
  std::function<double()> random;
};

// Returns the steady clock, a random generator, and a sleep during which gRPC
// makes the connections of this process anew.
RetryEnvironment SystemRetryEnvironment();

// Decides of one call how often it is repeated, and when. Thread-compatible;
// `backoff` and `environment` outlive it.
//
// A call is repeated when it returns Unavailable or a ResourceExhausted that
// says when to try again (contract/retry_delay.h), unless the next pause would
// reach the end of `timeout`, or either side says that it is no use.
//
// ResourceExhausted says that nothing has happened, but only of that attempt:
// after one that was Unavailable, and may have been made, it counts as
// Unavailable too.
class RetryCourse {
 public:
  // The timeout begins now.
  RetryCourse(const Backoff& backoff, const RetryEnvironment& environment,
              absl::Duration timeout);

  // Returns the pause after an attempt that has ended with `status`; nothing if
  // no other attempt is to be made. In that case the call is to return
  // `status`, which this may have replaced.
  std::optional<absl::Duration> PauseAfter(absl::Status& status);

  // Returns what is left of the timeout.
  absl::Duration TimeLeft() const;

 private:
  const Backoff& backoff_;
  const RetryEnvironment& environment_;
  const absl::Duration timeout_;
  const absl::Duration begin_;
  absl::Duration bound_;
  bool is_first_ = true;
  bool may_have_been_made_ = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRY_RETRY_LOOP_H_
