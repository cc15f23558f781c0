// Repeats a call while the other side is Unavailable.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRY_LOOP_H_
#define TENSORKV_CLIENT_INTERNAL_RETRY_LOOP_H_

#include <algorithm>
#include <functional>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/internal/connect_error.h"
#include "client/internal/result_status.h"

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

// Unavailable, from the refusal of a repeat.
inline absl::Status AfterUnavailable(const absl::Status& refusal) {
  return absl::UnavailableError(absl::StrCat(
      "an earlier attempt may have been made; its repeat was refused: ",
      refusal.message()));
}

// Calls `attempt(time_left)`, which returns a Status or StatusOr, until it
// returns anything but Unavailable, or the next pause would reach the end of
// `timeout`, or `backoff` says that it is no use. Returns what the last attempt
// returned. The first attempt is made whatever the timeout.
//
// ResourceExhausted says that nothing has happened, but only of that attempt:
// after one that was Unavailable, and may have been made, it counts as
// Unavailable too.
template <typename Attempt>
std::invoke_result_t<Attempt, absl::Duration> RetryLoop(
    const Backoff& backoff, const RetryEnvironment& environment,
    absl::Duration timeout, Attempt attempt) {
  const absl::Duration begin = environment.now();
  absl::Duration bound = backoff.initial;
  absl::Duration time_left = timeout;
  bool may_be_made = false;
  while (true) {
    auto result = attempt(time_left);
    if (may_be_made && absl::IsResourceExhausted(ResultStatus(result))) {
      result = AfterUnavailable(ResultStatus(result));
    }
    const absl::Status& status = ResultStatus(result);
    if (!absl::IsUnavailable(status)) return result;
    if (CouldNotConnect(status) && !may_be_made && !backoff.waits_for_server) {
      return result;
    }
    may_be_made = true;
    const absl::Duration pause = bound * environment.random();
    const absl::Duration patience = CouldNotResolve(status)
                                        ? std::min(timeout, backoff.unresolved)
                                        : timeout;
    if (environment.now() + pause >= begin + patience) return result;
    environment.sleep(pause);
    time_left = begin + timeout - environment.now();
    if (time_left <= absl::ZeroDuration()) return result;
    bound = std::min(bound * 2, backoff.maximum);
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRY_LOOP_H_
