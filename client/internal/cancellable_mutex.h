// A mutex that nobody has to wait for.

#ifndef TENSORKV_CLIENT_INTERNAL_CANCELLABLE_MUTEX_H_
#define TENSORKV_CLIENT_INTERNAL_CANCELLABLE_MUTEX_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/canceller.h"

namespace tensorkv {

// Locked for as long as calls take, whose callers may give up. Not recursive.
// Thread-safe.
class ABSL_LOCKABLE CancellableMutex {
 public:
  // Returns false, without the lock, where somebody cancels before it is free.
  // Null stands for a canceller that nobody uses.
  [[nodiscard]] bool LockUnlessCancelled(std::shared_ptr<Canceller> canceller)
      ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    bool is_cancelled = false;  // guarded by mutex_
    const Canceller::Listening listening(std::move(canceller), [&] {
      MutexLock lock(&mutex_);
      is_cancelled = true;
      changed_.SignalAll();
    });
    MutexLock lock(&mutex_);
    while (is_locked_ && !is_cancelled) changed_.Wait(&mutex_);
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

#endif  // TENSORKV_CLIENT_INTERNAL_CANCELLABLE_MUTEX_H_
