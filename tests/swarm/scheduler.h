// Steps everything that would run at the same time, in an order that a test
// chooses.

#ifndef TENSORKV_TESTS_SWARM_SCHEDULER_H_
#define TENSORKV_TESTS_SWARM_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "base/task_pool.h"

namespace tensorkv::swarm {

// Why a thread stands still.
enum class Pause : uint8_t {
  // A lock that another thread holds, or a condition.
  kLock,
  // A device that is slow.
  kDevice,
  // The reader of a snapshot: a slow disk.
  kReader,
  // A message on its way.
  kNetwork,
};

// Runs tasks on threads of its own, of which never more than one runs: that of
// the last Start or Resume, while its caller waits. A thread that would block
// in a mutex or a condition variable pauses instead; scheduler.cc takes the
// place of the C library's functions for these threads. So the order of all
// that happens follows from the order of the calls made here, and a program
// that makes the same calls gets the same run.
//
// All methods are for the thread that has made the scheduler, but for Post and
// PauseHere, which tasks call.
class Scheduler {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  Scheduler();
  // REQUIRES: HasPaused() is false for every kind.
  ~Scheduler();

  // Runs `task` until it ends or pauses.
  void Start(Task task);
  // Has Resume run `task`.
  void Post(Task task);
  // Whether a scheduler runs this thread.
  static bool RunsHere();
  // Pauses the task that calls. Returns false, and does nothing, on a thread
  // that no scheduler runs.
  static bool PauseHere(Pause why);

  // What Resume can run: threads that have paused, and then tasks.
  size_t num_ready() const;
  // Runs the one at that place, readers of snapshots left out, until it ends or
  // pauses. REQUIRES: n < num_ready().
  void Resume(size_t n);

  size_t num_readers() const;
  void ResumeReader(size_t n);

  // Resumes all in turns until none gets any further.
  void Settle();

  bool HasPaused(Pause why) const;
  // Grows with every task that ends.
  uint64_t num_ended() const { return num_ended_; }

 private:
  class Thread;

  size_t Count(bool readers) const;
  void ResumeThread(size_t n, bool readers);
  // Runs a thread until it pauses or has ended its task.
  void Run(Thread* thread);

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_;
  std::vector<Thread*> paused_;
  std::deque<Task> tasks_;
  uint64_t num_ended_ = 0;
};

// Gives the store's work to a scheduler, which outlives it.
class ScheduledTasks final : public TaskRunner {
 public:
  explicit ScheduledTasks(Scheduler* scheduler) : scheduler_(*scheduler) {}

  // REQUIRES: the scheduler has settled.
  void Stop() override { has_stopped_ = true; }
  bool Submit(absl::string_view, Task&& task) override {
    if (has_stopped_) return false;
    scheduler_.Post(std::move(task));
    return true;
  }

 private:
  Scheduler& scheduler_;
  bool has_stopped_ = false;
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_SCHEDULER_H_
