// Begins calls in an order, and within bounds.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_CALL_QUEUE_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_CALL_QUEUE_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "client/internal/calls/key_order.h"

namespace tensorkv {

// Begins calls of which those with a key in common run one after another, and
// the others at the same time. Whoever adds one waits while too much is under
// way. Thread-safe.
class CallQueue {
 public:
  using Ticket = KeyOrder::Ticket;

  struct Limits {
    // So many calls may have been added and not have ended, and so many run.
    int max_in_flight = 1;
    int max_running = 1;
    // So many bytes these may have together. A call with more goes alone.
    uint64_t max_bytes = 0;
  };
  struct Call {
    std::vector<KeyOrder::KeyHash> keys;
    uint64_t bytes = 0;
    // Of those that nothing but max_running keeps from running, the one with
    // the highest priority runs next, of several the first that was added.
    int priority = 0;
    // Begins the call under its ticket; OnEnded is told of its end.
    absl::AnyInvocable<void(Ticket) &&> start;
  };

  // REQUIRES: limits above 0.
  explicit CallQueue(const Limits& limits) : limits_(limits) {}
  // Waits until all calls have ended.
  ~CallQueue();

  // Waits until there is headroom for the call, in the order in which callers
  // came, and adds it.
  void Add(Call call);
  // Is to be told once of the end of each call. `bytes` are those of the call.
  void OnEnded(Ticket ticket, uint64_t bytes);

  // Returns how many callers wait in Add.
  uint64_t num_blocked() const {
    MutexLock lock(&mutex_);
    return next_ticket_ - next_admitted_;
  }

 private:
  // The lowest of a set is that of the call which runs next.
  using Rank = std::pair<int64_t, Ticket>;

  // Gives the call a ticket, and waits until those before it are in and there
  // is headroom for it. It keeps its turn until it is added.
  Ticket AwaitTurn(const Call& call);
  bool HasTurn(Ticket ticket, const Call& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasHeadroomFor(const Call& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes a call due that no other call of its keys precedes.
  void MakeReady(Ticket ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins calls that are due, unless another thread does that already.
  // Releases the mutex while it begins one.
  void StartReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  CondVar has_headroom_;
  Ticket next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // This is the ticket that enters next.
  Ticket next_admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  // These count the calls that have not ended, and what they hold.
  int num_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // This counts those of them that have begun.
  int num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  KeyOrder order_ ABSL_GUARDED_BY(mutex_);
  // These are the calls that have not begun, and those that are due.
  absl::flat_hash_map<Ticket, Call> waiting_ ABSL_GUARDED_BY(mutex_);
  std::set<Rank> ready_ ABSL_GUARDED_BY(mutex_);
  // True while a thread begins calls. One that ends at once calls back
  // meanwhile.
  bool is_starting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_CALL_QUEUE_H_
