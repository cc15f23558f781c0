#include "client/internal/retry_loop.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/internal/connect_error.h"
#include "client/internal/random_bytes.h"
#include "client/internal/steady_now.h"
#include "contract/retry_delay.h"
#include "grpc/support/time.h"
#include "grpcpp/completion_queue.h"

namespace tensorkv {
namespace {

// With gRPC 1.51 and its epoll1 poller a thread that waits at any completion
// queue drives all connections of the process. When none does, only a backup
// poller looks at them, every 5 seconds (GRPC_CLIENT_CHANNEL_BACKUP_POLL_-
// INTERVAL_MS): the connection that is being made anew would not be ready when
// the pause is over.
void SleepAndDriveConnections(absl::Duration pause) {
  const gpr_timespec end = gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(pause), GPR_TIMESPAN));
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool is_ok = false;
  queue.AsyncNext(&tag, &is_ok, end);
  queue.Shutdown();
  while (queue.Next(&tag, &is_ok)) {
  }
}

// When the other side wants the next attempt; never: not at all. With other
// codes what it says is for those who call, who know what to do first.
std::optional<absl::Duration> DelayBy(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
    return std::nullopt;
  }
  return RetryDelayOf(status);
}

// Unavailable, from the refusal of a repeat.
absl::Status AfterUnavailable(const absl::Status& refusal) {
  return absl::UnavailableError(absl::StrCat(
      "an earlier attempt may have been made; its repeat was refused: ",
      refusal.message()));
}

// `delay` is the one that the other side asks for.
bool IsWorthARepeat(const absl::Status& status,
                    const std::optional<absl::Duration>& delay,
                    const Backoff& backoff, bool is_first) {
  if (delay) return *delay < absl::InfiniteDuration();
  if (!absl::IsUnavailable(status)) return false;
  return backoff.waits_for_server || !is_first || !CouldNotConnect(status);
}

// How long after the first attempt there may be another.
absl::Duration PatienceWith(const absl::Status& status, const Backoff& backoff,
                            absl::Duration timeout) {
  return CouldNotResolve(status) ? std::min(timeout, backoff.unresolved)
                                 : timeout;
}

}  // namespace

RetryEnvironment SystemRetryEnvironment() {
  return {
      .now = SteadyNow,
      .sleep = SleepAndDriveConnections,
      .random = RandomFraction,
  };
}

absl::Status RetryLoop(
    const Backoff& backoff, const RetryEnvironment& environment,
    absl::Duration timeout,
    absl::FunctionRef<absl::Status(absl::Duration)> attempt) {
  const absl::Duration begin = environment.now();
  absl::Duration bound = backoff.initial;
  absl::Duration time_left = timeout;
  bool may_have_been_made = false;
  for (bool is_first = true;; is_first = false) {
    absl::Status status = attempt(time_left);
    const std::optional<absl::Duration> delay = DelayBy(status);
    if (may_have_been_made && absl::IsResourceExhausted(status)) {
      status = AfterUnavailable(status);
    }
    may_have_been_made |= absl::IsUnavailable(status);
    if (!IsWorthARepeat(status, delay, backoff, is_first)) return status;
    const absl::Duration pause =
        delay.value_or(absl::ZeroDuration()) + bound * environment.random();
    const absl::Duration patience = PatienceWith(status, backoff, timeout);
    if (environment.now() + pause >= begin + patience) return status;
    environment.sleep(pause);
    time_left = begin + timeout - environment.now();
    if (time_left <= absl::ZeroDuration()) return status;
    bound = std::min(bound * 2, backoff.maximum);
  }
}

}  // namespace tensorkv
