// The order of a worker's pushes.

#ifndef TENSORKV_CLIENT_INTERNAL_WORKER_PUSH_ORDER_H_
#define TENSORKV_CLIENT_INTERNAL_WORKER_PUSH_ORDER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/call_threads.h"
#include "client/canceller.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Has pushes that have a key in common made one after another, in the order in
// which they came; others are made at the same time. Thread-safe.
class PushOrder {
 private:
  struct Push {
    // Hashes of the keys: two keys with the same one cost time, but nothing
    // else.
    std::vector<uint64_t> keys;
    // Is cancelled when the push has ended.
    std::shared_ptr<Canceller> ended;
  };

 public:
  // The place of a push, which ends with it. The order outlives it.
  class Place {
   public:
    Place(Place&& other) noexcept
        : order_(std::exchange(other.order_, nullptr)),
          push_(other.push_),
          before_(std::move(other.before_)) {}
    ~Place() { Leave(); }
    // Ends the push.
    void Leave() {
      if (order_ != nullptr) std::exchange(order_, nullptr)->Leave(push_);
    }

    // Waits until the pushes have ended that came before and have a key in
    // common with this one. Errors: those of AwaitCancel.
    Task<absl::Status> AwaitTurn(absl::Duration timeout,
                                 const std::shared_ptr<Canceller>& canceller,
                                 CallThreads* threads) const;

   private:
    friend class PushOrder;
    Place(PushOrder* order, std::list<Push>::iterator push,
          std::vector<std::shared_ptr<Canceller>> before)
        : order_(order), push_(push), before_(std::move(before)) {}

    PushOrder* order_;
    std::list<Push>::iterator push_;
    // They are cancelled when the pushes end that come before.
    std::vector<std::shared_ptr<Canceller>> before_;
  };

  // Gives a push of these entries the last place.
  Place Enter(absl::Span<const PushEntry> entries);

  // Returns whether a push has ever found another one before it.
  bool has_queued() const {
    MutexLock lock(&mutex_);
    return has_queued_;
  }

 private:
  void Leave(std::list<Push>::iterator push);

  mutable Mutex mutex_;
  std::list<Push> pushes_ ABSL_GUARDED_BY(mutex_);
  bool has_queued_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_WORKER_PUSH_ORDER_H_
