// Ends calls early.

#ifndef TENSORKV_CLIENT_CANCELLER_H_
#define TENSORKV_CLIENT_CANCELLER_H_

#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/scoped_blocking_call.h"

namespace tensorkv {

// Calls that are given a Canceller end with Cancelled once somebody has
// cancelled, and so do calls that begin later. Nobody knows whether a call that
// was cancelled has been made. Thread-safe.
class Canceller {
 private:
  using Listeners = std::list<absl::AnyInvocable<void()>>;

 public:
  // Runs `listener` when somebody cancels, on that thread, until this is
  // destroyed; in the constructor where somebody has cancelled already. The
  // listener runs with the canceller's lock: it must not use the canceller, nor
  // wait for a thread that does.
  class Listening {
   public:
    // Null stands for a canceller that nobody uses.
    Listening(std::shared_ptr<Canceller> canceller,
              absl::AnyInvocable<void()> listener)
        : canceller_(std::move(canceller)) {
      if (canceller_ == nullptr) return;
      MutexLock lock(&canceller_->mutex_);
      if (canceller_->is_cancelled_) listener();
      canceller_->listeners_.push_front(std::move(listener));
      place_ = canceller_->listeners_.begin();
    }
    ~Listening() {
      if (canceller_ == nullptr) return;
      MutexLock lock(&canceller_->mutex_);
      canceller_->listeners_.erase(place_);
    }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

   private:
    const std::shared_ptr<Canceller> canceller_;
    Listeners::iterator place_;
  };

  // Marks a call as under way, for CancelAndWait, until this is destroyed.
  class Use {
   public:
    // Null stands for a canceller that nobody uses.
    explicit Use(std::shared_ptr<Canceller> canceller)
        : canceller_(std::move(canceller)),
          may_begin_(canceller_ == nullptr || canceller_->Begin()) {}
    ~Use() {
      if (canceller_ != nullptr && may_begin_) canceller_->End();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    // Returns false if somebody had cancelled when this was made: the call must
    // not begin.
    bool may_begin() const { return may_begin_; }

   private:
    const std::shared_ptr<Canceller> canceller_;
    const bool may_begin_;
  };

  // Runs all listeners on the calling thread, and returns when they have run.
  // Later calls do nothing.
  void Cancel() {
    MutexLock lock(&mutex_);
    if (std::exchange(is_cancelled_, true)) return;
    for (auto& listener : listeners_) listener();
  }

  // Cancels, and returns when all calls that had begun have ended: they write
  // nothing any more, and read nothing but what a connection may yet have to
  // send (see Client). A thread for which such a call waits must not call this.
  void CancelAndWait() {
    Cancel();
    const ScopedBlockingCall waits(ScopedBlockingCall::IfLast::kWait);
    MutexLock lock(&mutex_);
    while (num_uses_ > 0) has_ended_.Wait(&mutex_);
  }

  bool is_cancelled() const {
    MutexLock lock(&mutex_);
    return is_cancelled_;
  }

 private:
  bool Begin() {
    MutexLock lock(&mutex_);
    if (is_cancelled_) return false;
    ++num_uses_;
    return true;
  }
  void End() {
    MutexLock lock(&mutex_);
    if (--num_uses_ == 0) has_ended_.SignalAll();
  }

  mutable Mutex mutex_;
  CondVar has_ended_;
  int num_uses_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  Listeners listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CANCELLER_H_
