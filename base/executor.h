// Runs work on another thread, in the order in which it came.

#ifndef TENSORKV_BASE_EXECUTOR_H_
#define TENSORKV_BASE_EXECUTOR_H_

#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/task_pool.h"

namespace tensorkv {

// One thread with a queue. Thread-safe.
class Executor {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // Has `runner`, which outlives it, run the queue; null: a thread of its own.
  // A runner must have run all of it before the destructor is called.
  explicit Executor(TaskRunner* runner = nullptr);
  // Runs what was submitted before, and what that submits, then returns.
  ~Executor();

  // Runs `task` after all that were submitted before it.
  void Submit(Task task);

 private:
  void Run();
  // Runs what there is.
  void RunQueue();
  void RunFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  TaskRunner* const runner_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Is true while the runner has yet to run the queue, or runs it.
  bool is_running_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_EXECUTOR_H_
