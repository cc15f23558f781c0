#include "service/store/keyspace/pull/delta_queue.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tensorkv {
namespace {

// Deltas of all namespaces share the pool as one namespace does: no name of one
// begins so.
constexpr absl::string_view kOwnerOfDeltas = "\1deltas";
// Bounds what a thread encodes before others have it.
constexpr size_t kTaskBytes = DeltaJob::kStepBytes;
// What a job costs besides its bytes is as much as encoding so many.
constexpr size_t kJobCostBytes = 16 << 10;
constexpr absl::Duration kTrimmedEvery = absl::Seconds(10);

// Returns how many jobs run at a time. Most threads are left to others.
size_t MaxWorkers() {
  return std::clamp<size_t>(TaskPool::DefaultNumThreads() / 4, 1, 4);
}

}  // namespace

// What waits takes no longer than a comparison of all that the server can have.
DeltaQueue::DeltaQueue(const ServerBudgets* budgets,
                       std::shared_ptr<TaskRunner> pool, Alarms* alarms)
    : cache_(budgets, alarms),
      pool_(std::move(pool)),
      alarms_(*alarms),
      max_queued_bytes_(budgets->host()->limit_bytes()) {}

void DeltaQueue::Push(std::vector<std::unique_ptr<DeltaJob>> jobs) {
  std::vector<std::unique_ptr<DeltaJob>> surplus;
  size_t num_started = 0;
  {
    MutexLock lock(&mutex_);
    for (std::unique_ptr<DeltaJob>& job : jobs) {
      if (queued_bytes_ + job->value_bytes() > max_queued_bytes_) {
        surplus.push_back(std::move(job));
        continue;
      }
      queued_bytes_ += job->value_bytes();
      jobs_.push_back(std::move(job));
      if (num_workers_ == MaxWorkers()) continue;
      ++num_workers_;
      ++num_started;
    }
  }
  for (const auto& job : surplus) cache_.Abandon(job->id());
  for (size_t i = 0; i < num_started; ++i) Submit(std::make_shared<Worker>());
}

void DeltaQueue::Submit(const std::shared_ptr<Worker>& worker) {
  TaskRunner::Task task = [self = shared_from_this(), worker] {
    if (self->Work(*worker)) self->Submit(worker);
  };
  if (pool_->Submit(kOwnerOfDeltas, std::move(task))) return;
  // The store has ended; then nobody waits.
  do {
    if (worker->job) cache_.Abandon(worker->job->id());
    worker->job = nullptr;
  } while (TakeNext(*worker));
}

bool DeltaQueue::TakeNext(Worker& worker) {
  MutexLock lock(&mutex_);
  if (jobs_.empty()) {
    --num_workers_;
    return false;
  }
  worker.job = std::move(jobs_.front());
  jobs_.pop_front();
  queued_bytes_ -= worker.job->value_bytes();
  return true;
}

bool DeltaQueue::Work(Worker& worker) {
  for (size_t done = 0; done < kTaskBytes;) {
    if (!worker.job) {
      if (!TakeNext(worker)) return false;
      done += kJobCostBytes;
    }
    done += std::min(DeltaJob::kStepBytes, worker.job->value_bytes());
    Step(worker);
  }
  return true;
}

// What a job has taken is free before anybody hears of its end.
void DeltaQueue::Step(Worker& worker) {
  DeltaJob& job = *worker.job;
  const DeltaId id = job.id();
  if (!cache_.IsAwaited(id)) {
    worker.job = nullptr;
    return;
  }
  const absl::Status status = job.Step(cache_, worker.scratch);
  if (status.ok() && !job.has_ended()) return;
  const absl::StatusOr<CachedDeltaPtr> delta =
      status.ok() ? job.Finish(cache_) : status;
  worker.job = nullptr;
  if (!delta.ok()) return cache_.Abandon(id);
  cache_.Add(id, *delta);
  ScheduleTrim(kTrimmedEvery, trims_later_);
}

void DeltaQueue::TrimIfAboveRoom() {
  if (cache_.IsAboveRoom()) ScheduleTrim(absl::ZeroDuration(), trims_soon_);
}

void DeltaQueue::ScheduleTrim(absl::Duration delay,
                              std::atomic<bool>& is_scheduled) {
  if (is_scheduled.exchange(true)) return;
  alarms_.Schedule(alarms_.Now() + delay,
                   [weak = weak_from_this(), &is_scheduled] {
                     const auto self = weak.lock();
                     if (self == nullptr) return;
                     self->pool_->Submit(kOwnerOfDeltas, [self, &is_scheduled] {
                       is_scheduled = false;
                       if (!self->cache_.Trim()) return;
                       self->ScheduleTrim(kTrimmedEvery, self->trims_later_);
                     });
                   });
}

}  // namespace tensorkv
