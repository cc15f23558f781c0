// A mutex for which a caller can stop waiting.

#ifndef TENSORKV_CLIENT_INTERNAL_WORKER_CANCELLABLE_MUTEX_H_
#define TENSORKV_CLIENT_INTERNAL_WORKER_CANCELLABLE_MUTEX_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/scoped_blocking_call.h"
#include "client/canceller.h"
#include "client/internal/steady_now.h"

namespace tensorkv {

// Held while calls are made, by callers who may be cancelled meanwhile. Not
// recursive. Thread-safe.
class ABSL_LOCKABLE CancellableMutex {
 public:
  // Returns false, without the lock, where somebody cancels before it is free,
  // or it is not free within `timeout`. Null stands for a canceller that nobody
  // uses.
  [[nodiscard]] bool LockUnlessCancelled(
      std::shared_ptr<Canceller> canceller,
      absl::Duration timeout = absl::InfiniteDuration())
      ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    const ScopedBlockingCall waits;
    const absl::Duration end = SteadyNow() + timeout;
    bool is_cancelled = false;  // guarded by mutex_
    const Canceller::Listening listening(std::move(canceller), [&] {
      MutexLock lock(&mutex_);
      is_cancelled = true;
      changed_.SignalAll();
    });
    MutexLock lock(&mutex_);
    while (is_locked_ && !is_cancelled && SteadyNow() < end) {
      changed_.WaitWithTimeout(&mutex_, end - SteadyNow());
    }
    if (is_locked_) return false;
    is_locked_ = true;
    return true;
  }

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    (void)LockUnlessCancelled(nullptr);
  }

  void unlock() ABSL_UNLOCK_FUNCTION() {
    MutexLock lock(&mutex_);
    is_locked_ = false;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_locked_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_WORKER_CANCELLABLE_MUTEX_H_
