// Locks with thread-safety annotations, built on the standard library.
//
// Not absl::Mutex: the distribution's Abseil is not built for ThreadSanitizer,
// which then misses the order that absl::Mutex gives and reports races where
// there are none (docs/decisions/0002-standard-mutexes.md).

#ifndef TENSORKV_BASE_MUTEX_H_
#define TENSORKV_BASE_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace tensorkv {

// A mutual-exclusion lock. Not recursive. Thread-safe.
class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds a mutex for its scope.
template <typename M = Mutex>
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(M* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(*mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  M& mutex_;
};

// A Mutex that a waiting thread gets before the thread that has just unlocked
// it: a thread that locks it again and again lets others in between. A Mutex
// would mostly go to that thread again. Locking takes about twice as long.
class ABSL_LOCKABLE FairMutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    const MutexLock is_next(&next_);
    mutex_.lock();
  }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  // Held by the thread that is to have mutex_ next.
  Mutex next_;
  Mutex mutex_;
};

// A condition variable for use with Mutex. Thread-safe. Waits may wake
// spuriously; test the condition in a loop.
class CondVar {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    condition_.wait(*mutex);
  }
  // Waits for a signal, but at most for `timeout` or a year. Returns true if
  // that has passed. Follows the steady clock.
  bool WaitWithTimeout(Mutex* mutex, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    // The library adds the timeout to the time now, which may overflow.
    constexpr absl::Duration kLongest = absl::Hours(24 * 365);
    return condition_.wait_for(*mutex, absl::ToChronoNanoseconds(
                                           std::min(timeout, kLongest))) ==
           std::cv_status::timeout;
  }
  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

// An event that happens once, when Notify is called; later calls of Notify have
// no effect. Thread-safe; must outlive every call on it, Notify included.
class Notification {
 public:
  void Notify() {
    MutexLock lock(&mutex_);
    notified_ = true;
    condition_.SignalAll();
  }
  void WaitForNotification() {
    MutexLock lock(&mutex_);
    while (!notified_) condition_.Wait(&mutex_);
  }
  bool HasBeenNotified() {
    MutexLock lock(&mutex_);
    return notified_;
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_MUTEX_H_
