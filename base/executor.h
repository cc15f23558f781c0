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

  // Runs the queue on a thread of its own, or, where `runner` is not null, on
  // that: one thread of the runner at a time. The runner outlives the executor,
  // and must have run the whole queue before the destructor is called.
  explicit Executor(TaskRunner* runner = nullptr);
  // Without a runner, waits until all tasks that were submitted, and those that
  // these submit, have run. With one, waits for nothing.
  ~Executor();

  // Queues `task`, to run after all that were submitted before it, and returns
  // at once. With a runner that has stopped, the task never runs.
  void Submit(Task task);

 private:
  // Runs on the executor's own thread.
  void Run();
  // Runs the queue until it is empty, on a thread of the runner.
  void RunQueue();
  // Runs the first task, with the mutex unlocked meanwhile.
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
