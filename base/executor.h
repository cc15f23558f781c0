// Runs work on other threads, in the order in which it came.

#ifndef TENSORKV_BASE_EXECUTOR_H_
#define TENSORKV_BASE_EXECUTOR_H_

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace tensorkv {

// A few threads with one queue: one thread runs tasks one after another, more
// begin them in their order. Thread-safe.
class Executor {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // REQUIRES: num_threads > 0.
  explicit Executor(int num_threads = 1);
  // Runs what was submitted before, and what that submits, then returns.
  ~Executor();

  // Begins `task` after all that were submitted before it.
  void Submit(Task task);

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  // Last: they start when everything else is there.
  std::vector<std::thread> threads_;
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_EXECUTOR_H_
