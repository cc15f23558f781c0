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
#include "client/internal/calls/call_deadline.h"
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

// A thread of `threads`, for a call that is to block. Whoever awaits it goes on
// there; on its own thread where `threads` is null. A task of its own must not
// await it for others: they may go on where they are. Returns an error, on
// another thread, where the call ends before a thread is free:
// DeadlineExceeded · Cancelled. `deadline` outlives it.
class ThreadOf {
 public:
  ThreadOf(CallThreads* threads, const CallDeadline& deadline)
      : threads_(threads), deadline_(deadline) {}

  bool await_ready() { return threads_ == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) {
    // Whoever awaits may go on, without this object, before this returns.
    const auto wait = std::make_shared<Wait>(waiter);
    const absl::Duration longest = deadline_.TimeLeft();
    wait_ = wait;
    wait->by_caller.emplace(deadline_.canceller(),
                            [wakes = wait->wakes] { wakes->Cancel(); });
    threads_->Run([wait] { wait->End(/*on_thread=*/true); });
    SystemRetryEnvironment().run_after(
        longest, wait->wakes, [wait] { wait->End(/*on_thread=*/false); });
  }
  absl::Status await_resume() {
    if (wait_ == nullptr || wait_->has_thread) return absl::OkStatus();
    RETURN_IF_ERROR(deadline_.CheckTimeLeft());
    return absl::DeadlineExceededError(
        "no thread was free for the call within its timeout");
  }

 private:
  struct Wait {
    explicit Wait(std::coroutine_handle<> waiter) : waiter(waiter) {}

    // Goes on with whoever waits, if nobody has yet.
    void End(bool on_thread) {
      if (has_ended.exchange(true)) return;
      has_thread = on_thread;
      wakes->Cancel();
      by_caller.reset();
      waiter.resume();
    }

    const std::coroutine_handle<> waiter;
    // Ends the pause that bounds the wait.
    const std::shared_ptr<Canceller> wakes = std::make_shared<Canceller>();
    std::optional<Canceller::Listening> by_caller;
    std::atomic<bool> has_ended = false;
    bool has_thread = false;
  };

  CallThreads* const threads_;
  const CallDeadline& deadline_;
  std::shared_ptr<Wait> wait_;
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
