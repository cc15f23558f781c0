// Tells a waiting call that its caller has given up.

#ifndef TENSORKV_SERVICE_STORE_CANCELLATION_H_
#define TENSORKV_SERVICE_STORE_CANCELLATION_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace tensorkv {

// One caller's way to end one call early. Thread-safe; shared by the caller,
// who cancels, and the store, which listens.
class Cancellation {
 public:
  // Cancels the call: runs the listener, if there is one, on this thread. Later
  // calls do nothing.
  void Cancel() {
    absl::AnyInvocable<void() &&> listener;
    {
      MutexLock lock(&mutex_);
      is_cancelled_ = true;
      listener = std::exchange(listener_, nullptr);
    }
    if (listener) std::move(listener)();
  }

  // Returns a number that orders listeners. A stage of the call takes one
  // before it waits, and passes it to OnCancel once it waits: a later stage,
  // which may be listening by then, has a higher one.
  uint64_t TakeTicket() {
    MutexLock lock(&mutex_);
    return ++last_ticket_;
  }

  // Sets the listener that Cancel runs; runs it at once if the call is
  // cancelled already. There is one listener, that with the highest ticket:
  // another one is dropped.
  void OnCancel(uint64_t ticket, absl::AnyInvocable<void() &&> listener) {
    {
      MutexLock lock(&mutex_);
      if (ticket < listening_ticket_) return;
      listening_ticket_ = ticket;
      if (!is_cancelled_) {
        listener_ = std::move(listener);
        return;
      }
    }
    std::move(listener)();
  }
  void OnCancel(absl::AnyInvocable<void() &&> listener) {
    OnCancel(TakeTicket(), std::move(listener));
  }

  bool is_cancelled() {
    MutexLock lock(&mutex_);
    return is_cancelled_;
  }

 private:
  Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t listening_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::AnyInvocable<void() &&> listener_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CANCELLATION_H_
