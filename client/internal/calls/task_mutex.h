// A mutex for which tasks wait.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_TASK_MUTEX_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_TASK_MUTEX_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call_threads.h"
#include "client/canceller.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "client/internal/retry/retry_loop.h"
#include "client/internal/steady_now.h"

namespace tensorkv {

// Waits until somebody cancels `awaited`, which tells of the end of something.
// With `threads` it waits without a thread. What it is given outlives the task.
// Errors: Cancelled (somebody has cancelled `canceller`, which may be null) ·
// DeadlineExceeded.
inline Task<absl::Status> AwaitCancel(
    const std::shared_ptr<Canceller>& awaited, absl::Duration timeout,
    const std::shared_ptr<Canceller>& canceller, CallThreads* threads) {
  const RetryEnvironment environment = SystemRetryEnvironment();
  const auto wakes = std::make_shared<Canceller>();
  {
    const Canceller::Listening by_end(awaited, [=] { wakes->Cancel(); });
    const Canceller::Listening by_caller(canceller, [=] { wakes->Cancel(); });
    co_await Pause(environment, timeout, wakes, threads);
  }
  if (awaited->is_cancelled()) co_return absl::OkStatus();
  if (canceller != nullptr && canceller->is_cancelled()) {
    co_return absl::CancelledError("cancelled by the caller");
  }
  co_return absl::DeadlineExceededError("what was awaited has not ended");
}

// Is held while calls are made, by tasks that may be cancelled meanwhile. Not
// recursive. Thread-safe.
class TaskMutex {
 public:
  // Returns OK once the caller holds it. Errors: those of AwaitCancel.
  Task<absl::Status> Lock(absl::Duration timeout,
                          const std::shared_ptr<Canceller>& canceller,
                          CallThreads* threads) {
    const absl::Duration end = SteadyNow() + timeout;
    for (;;) {
      std::shared_ptr<Canceller> held;
      {
        MutexLock lock(&mutex_);
        if (held_ == nullptr) {
          held_ = std::make_shared<Canceller>();
          co_return absl::OkStatus();
        }
        held = held_;
      }
      const absl::Duration left = end - SteadyNow();
      const absl::Status status =
          co_await AwaitCancel(held, left, canceller, threads);
      CO_RETURN_IF_ERROR(status);
    }
  }

  void Unlock() {
    std::shared_ptr<Canceller> held;
    {
      MutexLock lock(&mutex_);
      held.swap(held_);
    }
    held->Cancel();
  }

  bool is_locked() const {
    MutexLock lock(&mutex_);
    return held_ != nullptr;
  }

 private:
  mutable Mutex mutex_;
  // Is cancelled when whoever holds the mutex lets it go; null: nobody does.
  std::shared_ptr<Canceller> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_TASK_MUTEX_H_
