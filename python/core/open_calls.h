// Keeps the calls that a store has under way.

#ifndef TENSORKV_PYTHON_CORE_OPEN_CALLS_H_
#define TENSORKV_PYTHON_CORE_OPEN_CALLS_H_

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/canceller.h"

namespace tensorkv::python {

// Ends calls when their store is closed, by their cancellers. Thread-safe.
class OpenCalls {
 public:
  // Marks a call as under way until this is destroyed.
  class Call {
   public:
    // Cancels `canceller` at once if CancelAll was called before.
    Call(std::shared_ptr<OpenCalls> calls,
         const std::shared_ptr<Canceller>& canceller)
        : calls_(std::move(calls)) {
      MutexLock lock(&calls_->mutex_);
      calls_->cancellers_.push_front(canceller);
      place_ = calls_->cancellers_.begin();
      if (calls_->has_ended_) canceller->Cancel();
    }
    ~Call() {
      MutexLock lock(&calls_->mutex_);
      calls_->cancellers_.erase(place_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    const std::shared_ptr<OpenCalls> calls_;
    std::list<std::shared_ptr<Canceller>>::iterator place_;
  };

  // Cancels all calls, and each call that begins later.
  void CancelAll() {
    std::vector<std::shared_ptr<Canceller>> cancellers;
    {
      MutexLock lock(&mutex_);
      has_ended_ = true;
      cancellers.assign(cancellers_.begin(), cancellers_.end());
    }
    for (const auto& each : cancellers) each->Cancel();
  }

  // Returns whether CancelAll was called.
  bool has_ended() const {
    MutexLock lock(&mutex_);
    return has_ended_;
  }

 private:
  mutable Mutex mutex_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<std::shared_ptr<Canceller>> cancellers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_OPEN_CALLS_H_
