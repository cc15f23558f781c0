// Threads that several owners of tasks share, none at the others' expense.

#ifndef TENSORKV_BASE_TASK_POOL_H_
#define TENSORKV_BASE_TASK_POOL_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tensorkv {

// Runs tasks on other threads. Thread-safe.
class TaskRunner {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  virtual ~TaskRunner() = default;

  // Returns when all tasks that were submitted, and those that they submit,
  // have run. REQUIRES: not called by a task.
  virtual void Stop() = 0;

  // Queues `task` for `owner`, any name of those among whom the threads are
  // shared, and returns true at once. Returns false, and leaves the task as it
  // is, if Stop has run everything already.
  virtual bool Submit(absl::string_view owner, Task&& task) = 0;
};

// Runs tasks of several owners on a fixed number of threads. Thread-safe.
//
// Owners take turns, and none has all threads at once: whatever one of them
// submits, the tasks of another begin as soon as those before them in its own
// queue have begun and a thread is free. The tasks of one owner begin in their
// order, but run at the same time.
class TaskPool final : public TaskRunner {
 public:
  // Returns the number of threads that can run at once (NumCores), but at least
  // 4 and at most 16.
  static size_t DefaultNumThreads();

  // REQUIRES: at least 2 threads.
  explicit TaskPool(size_t num_threads = DefaultNumThreads());
  ~TaskPool() override { Stop(); }

  void Stop() override;
  bool Submit(absl::string_view owner, Task&& task) override;

 private:
  struct Owner {
    std::string name;
    std::deque<Task> tasks;
    size_t num_running = 0;
    bool is_ready = false;  // in ready_
  };

  void Run();
  // Puts the owner into ready_ if it has a task, may have another thread, and
  // is not there yet.
  void AddIfReady(Owner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a task of the owner that has returned; drops an owner without tasks.
  void OnTaskReturned(Owner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_running_per_owner_;
  Mutex mutex_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // The owners with tasks, waiting or running.
  std::map<std::string, Owner, std::less<>> owners_ ABSL_GUARDED_BY(mutex_);
  std::deque<Owner*> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // last: start when all else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_TASK_POOL_H_
