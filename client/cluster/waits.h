// How the calls of a cluster wait, and for how long.

#ifndef TENSORKV_CLIENT_CLUSTER_WAITS_H_
#define TENSORKV_CLIENT_CLUSTER_WAITS_H_

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/call_threads.h"
#include "client/canceller.h"
#include "client/connection.h"
#include "client/internal/calls/task.h"
#include "client/internal/steady_now.h"

namespace tensorkv {

// Bounds a call that is made of many others, says where its values may be
// received, and whether it has a thread.
struct CallLimit {
  // The limit of a call that begins now. With `threads`, on which runs what has
  // to block, it waits without a thread; else the calling thread waits.
  explicit CallLimit(const CallOptions& options, CallThreads* threads = nullptr)
      : end(SteadyNow() + options.timeout),
        canceller(options.canceller),
        destinations(options.destinations),
        threads(threads) {}

  absl::Duration TimeLeft() const { return end - SteadyNow(); }
  // Returns the limit, but with an end that is at most `longest` from now.
  CallLimit Within(absl::Duration longest) const {
    CallLimit within = *this;
    within.end = std::min(end, SteadyNow() + longest);
    return within;
  }
  // Returns options of a call that ends with the limit, without destinations.
  CallOptions Options() const {
    return {.timeout = TimeLeft(), .canceller = canceller};
  }
  bool IsCancelled() const {
    return canceller != nullptr && canceller->is_cancelled();
  }

  absl::Duration end;  // by SteadyNow
  std::shared_ptr<Canceller> canceller;
  absl::Span<const Destination> destinations;
  CallThreads* threads;
};

// The end of several tasks that were started; copies are of the same tasks.
// Thread-safe.
class EndOfAll {
 public:
  // Of `count` tasks. With `blocks`, the thread that awaits it waits.
  EndOfAll(size_t count, bool blocks)
      : state_(std::make_shared<State>(count + 1)), blocks_(blocks) {}

  // Tells that one of the tasks has ended, which nobody else tells. The last
  // one goes on with whoever awaits.
  void Tell() {
    if (--state_->num_left > 0) return;
    if (blocks_) return state_->has_ended.Notify();
    state_->waiter.resume();
  }

  bool await_ready() {
    if (!blocks_) return false;
    if (--state_->num_left > 0) state_->has_ended.WaitForNotification();
    return true;
  }
  bool await_suspend(std::coroutine_handle<> waiter) {
    state_->waiter = waiter;
    return --state_->num_left > 0;
  }
  void await_resume() {}

 private:
  struct State {
    explicit State(size_t num_left) : num_left(num_left) {}

    // One of them is whoever awaits.
    std::atomic<size_t> num_left;
    std::coroutine_handle<> waiter;
    Notification has_ended;
  };

  // Shared: whoever tells of the end may not be done with it yet.
  const std::shared_ptr<State> state_;
  const bool blocks_;
};

// Returns what work(0) to work(count - 1) return, which wait at the same time.
// Each gets the limit by which it is to wait: all but the last wait without a
// thread, on `threads` runs what has to block.
template <typename T>
Task<std::vector<T>> AtOnce(
    size_t count, const CallLimit& limit, CallThreads& threads,
    absl::FunctionRef<Task<T>(size_t, const CallLimit&)> work) {
  std::vector<T> results(count);
  if (count == 0) co_return std::move(results);
  CallLimit of_started = limit;
  of_started.threads = &threads;
  EndOfAll end(count - 1, /*blocks=*/limit.threads == nullptr);
  for (size_t i = 0; i + 1 < count; ++i) {
    StartTask(work(i, of_started), [&results, i, end](T result) mutable {
      results[i] = std::move(result);
      end.Tell();
    });
  }
  results.back() = co_await work(count - 1, limit);
  co_await end;
  co_return std::move(results);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_WAITS_H_
