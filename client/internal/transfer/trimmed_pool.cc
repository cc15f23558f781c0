#include "client/internal/transfer/trimmed_pool.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/internal/calls/wait_queue.h"

namespace tensorkv {

// Looks at a pool in each period at the end of which it has idle memory.
class TrimmedPool::Trimmer : public std::enable_shared_from_this<Trimmer> {
 public:
  Trimmer(absl::Duration period, RunAfter run_after)
      : period_(period), run_after_(std::move(run_after)) {}

  void Begin(RefPtr<BufferPool> pool) {
    MutexLock lock(&mutex_);
    pool_ = std::move(pool);
  }

  // Buffers of the pool may keep it for longer.
  void End() {
    {
      MutexLock lock(&mutex_);
      pool_ = nullptr;
    }
    canceller_->Cancel();
  }

  // The pool has idle memory.
  void Schedule() {
    if (period_ == absl::InfiniteDuration()) return;
    // There is no thread that an alarm could run on, as in a forked process.
    if (!WaitQueue().ok()) return;
    {
      MutexLock lock(&mutex_);
      if (pool_ == nullptr || std::exchange(is_scheduled_, true)) return;
    }
    run_after_(period_, canceller_,
               [self = shared_from_this()] { self->Trim(); });
  }

 private:
  void Trim() {
    RefPtr<BufferPool> pool;
    {
      MutexLock lock(&mutex_);
      // From here on the pool may have idle memory anew.
      is_scheduled_ = false;
      pool = pool_;
    }
    if (pool != nullptr && pool->TrimUnused() > 0) Schedule();
  }

  const absl::Duration period_;
  const RunAfter run_after_;
  const std::shared_ptr<Canceller> canceller_ = std::make_shared<Canceller>();

  Mutex mutex_;
  RefPtr<BufferPool> pool_ ABSL_GUARDED_BY(mutex_);
  bool is_scheduled_ ABSL_GUARDED_BY(mutex_) = false;
};

TrimmedPool::TrimmedPool(size_t max_idle_bytes, absl::Duration max_idle_time,
                         RunAfter run_after)
    : trimmer_(std::make_shared<Trimmer>(max_idle_time, std::move(run_after))),
      pool_(MakeRefCounted<BufferPool>(
          max_idle_bytes, [trimmer = std::weak_ptr<Trimmer>(trimmer_)] {
            if (const auto alive = trimmer.lock()) alive->Schedule();
          })) {
  trimmer_->Begin(pool_);
}

TrimmedPool::~TrimmedPool() { trimmer_->End(); }

}  // namespace tensorkv
