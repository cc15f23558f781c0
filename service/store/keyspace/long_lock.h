// A lock that its holder keeps for long: waits for it end with their calls.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_LONG_LOCK_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_LONG_LOCK_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Excludes others, as a mutex does, for as long as it takes to write all keys
// or to allocate states for them. So whoever waits gives up when its call's
// time is over, its caller has gone, or the namespace has. It goes to those who
// wait in the order in which they came. Thread-safe.
//
// It belongs to no thread: whoever has the Holder may give it back on another.
class LongLock {
  struct State;

 public:
  // The lock, until this goes. Move-only; may outlive the lock.
  class Holder {
   public:
    Holder() = default;
    Holder(Holder&&) = default;
    Holder& operator=(Holder&& other) noexcept {
      Release();
      state_ = std::move(other.state_);
      return *this;
    }
    ~Holder() { Release(); }

    bool has_lock() const { return state_ != nullptr; }
    void Release();

   private:
    friend class LongLock;
    explicit Holder(std::shared_ptr<State> state) : state_(std::move(state)) {}

    std::shared_ptr<State> state_;  // null: it has none
  };

  // `holders` says in errors what is waited for.
  LongLock(absl::string_view name_space, absl::string_view holders);

  // Waits for as long as it takes: for those whom nobody can tell to give up.
  Holder Acquire();
  // Returns nothing if somebody has it, or waits for it.
  std::optional<Holder> TryAcquire();
  // Waits for as long as the call of `context` may, whose time begins now.
  // Errors: DeadlineExceeded (WAIT_ENDED) · Cancelled · what EndWaits was told.
  absl::StatusOr<Holder> Acquire(const CallContext& context, Alarms& alarms);

  // Ends the waits of calls, and those that would begin later.
  void EndWaits(const absl::Status& status);
  // Ends those that wait now.
  void InterruptWaits(const absl::Status& status);

 private:
  struct Waiter {
    // True if its wait may be ended.
    bool gives_up = false;
    bool has_lock = false;
    absl::Status end;  // not OK: it waits no longer
  };
  struct State {
    // Returns the lock, or its place among those who wait; null: it has the
    // lock.
    std::shared_ptr<Waiter> TakeOrWait(bool gives_up)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    // Returns whether it has the lock; it has not if its wait was ended.
    bool Await(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    void GiveUp(const std::shared_ptr<Waiter>& waiter,
                const absl::Status& status);
    void EndWaits(const absl::Status& status)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    // Gives it to whoever waits longest.
    void Release();

    Mutex mutex;
    CondVar changed;
    bool is_held ABSL_GUARDED_BY(mutex) = false;
    absl::Status end_of_waits ABSL_GUARDED_BY(mutex);
    std::deque<std::shared_ptr<Waiter>> waiters ABSL_GUARDED_BY(mutex);
  };

  // Returns the status of a wait that ended.
  absl::Status Ended(absl::StatusCode code, absl::Duration waited) const;

  const std::string name_space_;
  const std::string holders_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_LONG_LOCK_H_
