// Has the tasks of connections wait for calls and for pauses.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_AWAITED_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_AWAITED_H_

#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/scoped_blocking_call.h"
#include "base/status_macros.h"
#include "client/call_threads.h"
#include "client/canceller.h"
#include "client/connection.h"
#include "client/internal/calls/task.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/retry/retry_loop.h"

// With `threads`, on which runs what has to block, these wait without a thread;
// where it is null they block the thread that awaits them.

namespace tensorkv {

// A call at a connection. Awaited, it is made, and its status comes. All that
// it is given outlives it.
class MadeCall {
 public:
  MadeCall(Connection& connection, const AnyCall& call,
           const CallOptions& options, CallThreads* threads)
      : connection_(connection),
        call_(call),
        options_(options),
        threads_(threads) {}

  bool await_ready() {
    if (threads_ != nullptr) return false;
    status_ = connection_.Attempt(call_, options_);
    return true;
  }
  bool await_suspend(std::coroutine_handle<> waiter) {
    connection_.Start(call_, options_, *threads_,
                      [this, waiter](absl::Status status) {
                        status_ = std::move(status);
                        if (end_.Arrive()) waiter.resume();
                      });
    return !end_.Arrive();
  }
  absl::Status await_resume() { return std::move(status_); }

 private:
  Connection& connection_;
  const AnyCall call_;
  const CallOptions& options_;
  CallThreads* const threads_;
  absl::Status status_;
  Meeting end_;
};

// Makes a call at a connection, and returns its reply.
template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> MakeCall(Connection& connection,
                                                const Request& request,
                                                CallOptions options,
                                                CallThreads* threads) {
  ReplyTo<Request> reply;
  const AnyCall call(request, reply);
  CO_RETURN_IF_ERROR(co_await MadeCall(connection, call, options, threads));
  co_return std::move(reply);
}

// A pause, which ends early when `canceller`, if any, is cancelled. All that it
// is given outlives it.
class Pause {
 public:
  Pause(const RetryEnvironment& environment, absl::Duration length,
        const std::shared_ptr<Canceller>& canceller, CallThreads* threads)
      : environment_(environment),
        length_(length),
        canceller_(canceller),
        blocks_(threads == nullptr) {}

  bool await_ready() {
    if (blocks_) environment_.sleep(length_, canceller_);
    return blocks_;
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    environment_.run_after(length_, canceller_, [waiter] { waiter.resume(); });
  }
  void await_resume() {}

 private:
  const RetryEnvironment& environment_;
  const absl::Duration length_;
  const std::shared_ptr<Canceller>& canceller_;
  const bool blocks_;
};

// A thread of `threads`. Whoever awaits it goes on there, and gets true; false,
// on another thread, where `longest` is over before one is free, or somebody
// cancels. A null canceller stands for one that nobody uses.
class ThreadOf {
 public:
  ThreadOf(CallThreads& threads, absl::Duration longest,
           std::shared_ptr<Canceller> canceller)
      : threads_(threads),
        longest_(longest),
        canceller_(std::move(canceller)),
        wait_(std::make_shared<Wait>()) {}

  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    // Whoever awaits may go on, without this object, before this returns.
    const std::shared_ptr<Wait> wait = wait_;
    const absl::Duration longest = longest_;
    wait->waiter = waiter;
    wait->by_caller.emplace(std::move(canceller_),
                            [wakes = wait->wakes] { wakes->Cancel(); });
    threads_.Run([wait] { wait->End(/*has_thread=*/true); });
    SystemRetryEnvironment().run_after(
        longest, wait->wakes, [wait] { wait->End(/*has_thread=*/false); });
  }
  bool await_resume() { return wait_->has_thread; }

 private:
  struct Wait {
    void End(bool with_thread) {
      if (has_ended.exchange(true)) return;
      has_thread = with_thread;
      wakes->Cancel();
      by_caller.reset();
      waiter.resume();
    }

    // Ends the pause that bounds the wait.
    const std::shared_ptr<Canceller> wakes = std::make_shared<Canceller>();
    std::coroutine_handle<> waiter;
    std::optional<Canceller::Listening> by_caller;
    std::atomic<bool> has_ended = false;
    bool has_thread = false;
  };

  CallThreads& threads_;
  const absl::Duration longest_;
  std::shared_ptr<Canceller> canceller_;
  const std::shared_ptr<Wait> wait_;
};

// A connection whose calls are tasks, whether somebody waits for them or not.
// Errors: those of CheckNotForked.
class TaskConnection : public Connection {
 public:
  absl::Status Attempt(const AnyCall& call, const CallOptions& options) final {
    RETURN_IF_ERROR(CheckNotForked());
    const ScopedBlockingCall waits;
    return Make(call, options, /*threads=*/nullptr).Run();
  }
  void Start(const AnyCall& call, const CallOptions& options,
             CallThreads& threads, Done done) final {
    absl::Status usable = CheckNotForked();
    if (!usable.ok()) return std::move(done)(std::move(usable));
    StartTask(Make(call, options, &threads), std::move(done));
  }

 private:
  virtual Task<absl::Status> Make(AnyCall call, CallOptions options,
                                  CallThreads* threads) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_AWAITED_H_
