// A lock that its holder keeps for long: waits for it end with their calls.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_LONG_LOCK_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_LONG_LOCK_H_

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
  // Holds the lock, and releases it when destroyed. Move-only; may outlive the
  // LongLock.
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

  // Blocks until it has the lock, however long. EndWaits and InterruptWaits do
  // not end this wait.
  Holder Acquire();
  // Returns the lock without waiting; nothing if somebody has it.
  std::optional<Holder> TryAcquire();
  // Blocks until it has the lock, at most for the timeout of `context`, from
  // now. Errors: DeadlineExceeded (WAIT_ENDED) · Cancelled · what EndWaits was
  // told.
  absl::StatusOr<Holder> Acquire(const CallContext& context, Alarms& alarms);

  // Ends with `status` the waits of Acquire(context, alarms), now and from now
  // on.
  void EndWaits(const absl::Status& status);
  // Ends with `status` those of these waits that are under way.
  void InterruptWaits(const absl::Status& status);

 private:
  struct Waiter {
    // True if its wait may be ended.
    bool gives_up = false;
    bool has_lock = false;
    absl::Status end;  // not OK: it waits no longer
  };
  struct State {
    // Takes the lock and returns null, or returns the waiter that it has added.
    std::shared_ptr<Waiter> TakeOrWait(bool gives_up)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    // Blocks until the waiter has the lock or its wait was ended; returns
    // whether it has the lock.
    bool Await(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    // Ends one wait with `status`, unless it has ended.
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

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_LONG_LOCK_H_
