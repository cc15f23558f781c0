// Work that may wait without a thread, written as if it had one.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_TASK_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_TASK_H_

#include <atomic>
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"

// These do in a task what the macros without CO do in a function; CO_RETURN_-
// IF_ERROR takes an absl::StatusOr too.
#define CO_RETURN_IF_ERROR(expr)                              \
  do {                                                        \
    const auto _ended = (expr);                               \
    if (!_ended.ok()) co_return ::tensorkv::StatusIn(_ended); \
  } while (false)

#define CO_ASSIGN_OR_RETURN(lhs, expr)                                        \
  TENSORKV_CO_ASSIGN_OR_RETURN_(TENSORKV_CONCAT_(_status_or_, __LINE__), lhs, \
                                expr)

#define TENSORKV_CO_ASSIGN_OR_RETURN_(status_or, lhs, expr) \
  auto status_or = (expr);                                  \
  if (!status_or.ok()) co_return status_or.status();        \
  lhs = *std::move(status_or)

namespace tensorkv {

inline const absl::Status& StatusIn(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusIn(const absl::StatusOr<T>& value) {
  return value.status();
}

// Lets two meet on which a task depends: the one who waits, and what it waits
// for. Whoever comes second goes on with the task. Thread-safe.
class Meeting {
 public:
  // Returns whether the other one was there before.
  bool Arrive() { return has_one_arrived_.exchange(true); }

 private:
  std::atomic<bool> has_one_arrived_ = false;
};

// A coroutine that makes a value. It begins when it is awaited, once, and goes
// on with whoever awaits it, on the thread on which it has ended. What it gets
// by reference lives until then. Thread-compatible.
//
// GCC 12 destroys twice what is made with braces, and has no name, in an
// expression that awaits, and has had other faults of that kind. So wherever
// something is awaited:
//  1. An expression with co_await makes no temporary with a destructor but what
//     is awaited, and the value that comes of it. All that this is given has a
//     name, and is taken by reference.
//  2. No conditional operator, no structured binding and no head of an if, a
//     for or a switch has a co_await in it.
//  3. No lambda that captures is a coroutine. It may return the task of one.
//
// An exception ends the process. Our code throws none; where the system has no
// memory for something small, other tasks may yet write what the one that would
// have to be given up has made room for.
template <typename T>
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    handle_.promise().waiter = waiter;
    handle_.resume();
    return !handle_.promise().end.Arrive();
  }
  T await_resume() { return std::move(handle_.promise().value).value(); }

  // Runs a task that waits by blocking its thread, and nowhere else.
  T Run() && {
    handle_.resume();
    return await_resume();
  }

 private:
  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
};

template <typename T>
struct Task<T>::promise_type {
  struct End {
    bool await_ready() noexcept { return false; }
    void await_suspend(Handle ended) noexcept {
      const std::coroutine_handle<> waiter = ended.promise().waiter;
      if (ended.promise().end.Arrive()) waiter.resume();
    }
    void await_resume() noexcept {}
  };

  Task get_return_object() { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() noexcept { return {}; }
  End final_suspend() noexcept { return {}; }
  void unhandled_exception() { std::terminate(); }
  template <typename Value>
  void return_value(Value&& made) {
    value.emplace(std::forward<Value>(made));
  }

  std::optional<T> value;
  std::coroutine_handle<> waiter;
  Meeting end;
};

// The coroutine behind StartTask. It owns itself.
struct StartedTask {
  struct promise_type {
    StartedTask get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Begins a task. `done` gets its value, on the thread on which it ends, perhaps
// before this returns; nothing of the task is left then.
template <typename T, typename Done>
StartedTask StartTask(Task<T> task, Done done) {
  std::optional<T> value;
  {
    Task<T> running = std::move(task);
    value.emplace(co_await running);
  }
  std::move(done)(*std::move(value));
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_TASK_H_
