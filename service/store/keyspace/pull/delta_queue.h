// Encodes the deltas that readers of all namespaces ask for.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_QUEUE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "base/task_pool.h"
#include "service/store/keyspace/pull/delta_cache.h"
#include "service/store/keyspace/pull/delta_job.h"
#include "service/store/memory_budgets.h"

namespace tensorkv {

// The work of a server for deltas. Thread-safe; owned by shared_ptr.
//
// Readers can ask for any amount of it, and no push may wait for that: the jobs
// of all namespaces stand in one queue of their own, and some few of them run
// at a time, some ms in a row, as tasks of an owner of their own. A job that
// nobody waits for any more ends.
class DeltaQueue : public std::enable_shared_from_this<DeltaQueue> {
 public:
  // `budgets` and `alarms` outlive the last task.
  DeltaQueue(const ServerBudgets* budgets, std::shared_ptr<TaskRunner> pool,
             Alarms* alarms);

  DeltaCache& cache() { return cache_; }
  // Has the jobs run, each of which the cache has said is missing; those that
  // are too many are abandoned.
  void Push(std::vector<std::unique_ptr<DeltaJob>> jobs);
  // Has the pool trim the cache, if it is above the room that it has. May be
  // called with the mutex of a namespace held.
  void TrimIfAboveRoom();

 private:
  // A thread's, for a time.
  struct Worker {
    std::unique_ptr<DeltaJob> job;
    DeltaJobScratch scratch;
  };

  // Has the pool go on with the worker's jobs.
  void Submit(const std::shared_ptr<Worker>& worker);
  // Runs jobs for some ms. Returns false, and counts the worker no more, if
  // there are none left.
  bool Work(Worker& worker);
  // Does one step of the worker's job, which has none any more if that was the
  // last.
  void Step(Worker& worker);
  // Has the worker take the next job; returns false if there is none.
  bool TakeNext(Worker& worker);
  // Has the cache trimmed after that time, and again and again as long as it
  // has something.
  void ScheduleTrim(absl::Duration delay, std::atomic<bool>& is_scheduled);

  DeltaCache cache_;
  const std::shared_ptr<TaskRunner> pool_;
  Alarms& alarms_;
  const uint64_t max_queued_bytes_;

  Mutex mutex_;
  std::deque<std::unique_ptr<DeltaJob>> jobs_ ABSL_GUARDED_BY(mutex_);
  // Is the sum of their value_bytes().
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_workers_ ABSL_GUARDED_BY(mutex_) = 0;

  std::atomic<bool> trims_soon_{false};
  std::atomic<bool> trims_later_{false};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_DELTA_QUEUE_H_
