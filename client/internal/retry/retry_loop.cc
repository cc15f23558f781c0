#include "client/internal/retry/retry_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/scoped_blocking_call.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/retry/connect_error.h"
#include "client/internal/retry/random_bytes.h"
#include "client/internal/steady_now.h"
#include "contract/retry_delay.h"
#include "grpc/support/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"

namespace tensorkv {
namespace {

gpr_timespec MonotonicEndOf(absl::Duration pause) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(pause), GPR_TIMESPAN));
}

// With gRPC 1.51 and its epoll1 poller a thread that waits at any completion
// queue drives all connections of the process. When none does, only a backup
// poller looks at them, every 5 seconds (GRPC_CLIENT_CHANNEL_BACKUP_POLL_-
// INTERVAL_MS): the connection that is being made anew would not be ready when
// the pause is over.
void SleepAndDriveConnections(absl::Duration pause,
                              const std::shared_ptr<Canceller>& canceller) {
  const ScopedBlockingCall waits;
  grpc::CompletionQueue queue;
  grpc::Alarm alarm;
  alarm.Set(&queue, MonotonicEndOf(pause), /*tag=*/nullptr);
  void* tag = nullptr;
  bool is_ok = false;
  {
    const Canceller::Listening listening(canceller, [&] { alarm.Cancel(); });
    queue.Next(&tag, &is_ok);
  }
  queue.Shutdown();
  while (queue.Next(&tag, &is_ok)) {
  }
}

// A pause that nobody waits for. It owns itself until it is over.
//
// Locks are taken in the order of the canceller's, then this one's.
class LonePause final : public QueuedWait,
                        public std::enable_shared_from_this<LonePause> {
 public:
  explicit LonePause(absl::AnyInvocable<void() &&> then)
      : then_(std::move(then)) {}

  void Begin(absl::Duration pause, const std::shared_ptr<Canceller>& canceller,
             grpc::CompletionQueue* queue) {
    listening_.emplace(canceller, [this] { Cut(); });
    MutexLock lock(&mutex_);
    self_ = shared_from_this();
    alarm_.Set(queue, MonotonicEndOf(is_cut_ ? absl::ZeroDuration() : pause),
               TagOf(this));
  }

  void End() override {
    listening_.reset();
    std::shared_ptr<LonePause> self;
    {
      MutexLock lock(&mutex_);
      self.swap(self_);
    }
    std::move(then_)();
  }

 private:
  void Cut() {
    MutexLock lock(&mutex_);
    is_cut_ = true;
    alarm_.Cancel();
  }

  absl::AnyInvocable<void() &&> then_;
  std::optional<Canceller::Listening> listening_;
  Mutex mutex_;
  bool is_cut_ ABSL_GUARDED_BY(mutex_) = false;
  // Null unless it is under way.
  std::shared_ptr<LonePause> self_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

void RunAfter(absl::Duration pause, const std::shared_ptr<Canceller>& canceller,
              absl::AnyInvocable<void() &&> then) {
  const absl::StatusOr<grpc::CompletionQueue*> queue = WaitQueue();
  if (!queue.ok()) {
    SleepAndDriveConnections(pause, canceller);
    return std::move(then)();
  }
  std::make_shared<LonePause>(std::move(then))->Begin(pause, canceller, *queue);
}

// Returns when the other side wants the next attempt; never: not at all. With
// other codes what it says is for those who call, who know what to do first.
std::optional<absl::Duration> DelayBy(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
    return std::nullopt;
  }
  return RetryDelayOf(status);
}

// Makes Unavailable of the refusal of a repeat.
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

// Returns how long after the first attempt there may be another.
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
      .run_after = RunAfter,
      .random = RandomFraction,
  };
}

RetryCourse::RetryCourse(const Backoff& backoff,
                         const RetryEnvironment& environment,
                         absl::Duration timeout)
    : backoff_(backoff),
      environment_(environment),
      timeout_(timeout),
      begin_(environment.now()),
      bound_(backoff.initial) {}

std::optional<absl::Duration> RetryCourse::PauseAfter(absl::Status& status) {
  const bool is_first = std::exchange(is_first_, false);
  const std::optional<absl::Duration> delay = DelayBy(status);
  if (may_have_been_made_ && absl::IsResourceExhausted(status)) {
    status = AfterUnavailable(status);
  }
  may_have_been_made_ |= absl::IsUnavailable(status);
  if (!IsWorthARepeat(status, delay, backoff_, is_first)) return std::nullopt;
  const absl::Duration pause =
      delay.value_or(absl::ZeroDuration()) + bound_ * environment_.random();
  const absl::Duration patience = PatienceWith(status, backoff_, timeout_);
  if (environment_.now() + pause >= begin_ + patience) return std::nullopt;
  bound_ = std::min(bound_ * 2, backoff_.maximum);
  return pause;
}

absl::Duration RetryCourse::TimeLeft() const {
  return begin_ + timeout_ - environment_.now();
}

}  // namespace tensorkv
