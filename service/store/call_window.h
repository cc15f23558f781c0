// The answers to mutating calls, kept so that a repeated call changes nothing.

#ifndef TENSORKV_SERVICE_STORE_CALL_WINDOW_H_
#define TENSORKV_SERVICE_STORE_CALL_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "service/store/byte_budget.h"
#include "service/store/call_answer.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

struct CallWindowOptions {
  // Ended calls of one client that are remembered.
  uint32_t max_calls_per_client = 128;
  // Clients that are remembered.
  uint32_t max_clients = 100'000;
  // Since the end of a call, or the last use of a client.
  absl::Duration max_age = absl::Minutes(15);
  // Bounds the answers to ended calls; the latest is kept whatever its size.
  uint64_t max_bytes = 64 << 20;
  // Bound on the wait for another attempt.
  absl::Duration max_wait = absl::Minutes(5);
};

// Recognises repeated calls. Thread-safe; owned by shared_ptr. A client is a
// caller and a client id: who knows another caller's client id neither reads
// its answers nor takes its place.
//
// Whoever makes a call enters here first and gets an Attempt: those of a call
// follow one another. One knows the answer that an earlier one has kept;
// without it, the call is to be made. Attempts that wait take no thread.
//
// Invariants:
//  1. A call has at most one attempt under way.
//  2. An answer that was kept is never replaced by a missing one: after Keep,
//     every later attempt gets that answer, or FailedPrecondition once it has
//     been dropped, for as long as the client is remembered.
//  3. A call that has an attempt under way or waiting, is not dropped.
//  4. The bytes of all that is remembered are reserved from the account.
//
// Answers are dropped when there are too many (of a client, or bytes of all)
// and when they are too old. Those go first that are not their client's latest,
// which is that of the highest sequence, then the oldest. Where the account has
// no memory for a call, such answers go too, but of the latest only its
// client's own: who makes a call has had the answer to the one before. A client
// is dropped when it has not called for max_age; a call that is repeated then,
// which nobody may do, counts as new.
class CallWindow : public std::enable_shared_from_this<CallWindow> {
  struct Call;

 public:
  // The right to make a call, until End or destruction. Move-only; used by one
  // thread at a time.
  class Attempt {
   public:
    Attempt(Attempt&&) = default;
    Attempt& operator=(Attempt&& other) = delete;
    ~Attempt() { End(); }

    // Returns the answer that an earlier attempt has kept; null if there is
    // nothing.
    const CallAnswer* answer() const { return answer_.get(); }

    // Makes `answer` the call's. REQUIRES: End has not been called.
    void Keep(const CallAnswer& answer);

    // Lets the next attempt begin. A call whose answer was never kept
    // is forgotten: it has not happened.
    void End();

   private:
    friend class CallWindow;
    Attempt(std::shared_ptr<CallWindow> window, Call* call,
            std::shared_ptr<const CallAnswer> answer)
        : window_(std::move(window)), call_(call), answer_(std::move(answer)) {}

    std::shared_ptr<CallWindow> window_;  // null after the end
    Call* call_;
    std::shared_ptr<const CallAnswer> answer_;
  };
  using AttemptCallback = absl::AnyInvocable<void(absl::StatusOr<Attempt>) &&>;

  // Reserves from `account`; `alarms` outlives the window.
  static std::shared_ptr<CallWindow> Create(const CallWindowOptions& options,
                                            Alarms* alarms,
                                            RefPtr<BudgetAccount> account);

  // Calls `on_attempt` once, now or on the thread that ends the attempt before,
  // unlocked. Errors: InvalidArgument (no client id or sequence;
  // another call has that name) · FailedPrecondition (too long ago to tell) ·
  // DeadlineExceeded and Cancelled (of `context`, while another attempt ran) ·
  // Unavailable (too many attempts wait; EndWaits) · ResourceExhausted (no
  // memory to remember it) · the caller's, for calls that are not remembered.
  void Enter(const CallIdentity& call, const CallContext& context,
             AttemptCallback on_attempt);

  // Returns whether an attempt of that call is under way or has left an answer,
  // so that nothing that speaks against a new call counts. Errors:
  // InvalidArgument and FailedPrecondition as of Enter.
  absl::StatusOr<bool> Knows(const Caller& caller, const CallId& id) const;

  // Ends all waits with `status`, also those that would begin later.
  void EndWaits(const absl::Status& status);

  // Returns every call that is remembered or being made throughout, and for
  // each client one for its forgotten calls. Goes through the clients some at a
  // time; `paused` hears how long each took.
  std::vector<CallSnapshot> Save(
      absl::FunctionRef<void(absl::Duration)> paused) const;
  // Remembers saved calls as if they had just ended; fewer if not all fit.
  // REQUIRES: nobody has called yet; each not forgotten has an answer.
  void Restore(const std::vector<CallSnapshot>& calls);

  // Returns the attempts that wait now.
  WaitStatus waits() const;

 private:
  struct Client;
  // The name of a caller, and the client id that it goes by.
  using ClientKey = std::pair<std::string, std::string>;
  using ByEnd = std::multimap<absl::Duration, Call*>;
  // A Waiter is an attempt that waits for the one before.
  struct Waiter {
    Call* call = nullptr;
    AttemptCallback on_attempt;  // null when it has ended
    Alarms::Id alarm = 0;
    absl::Duration started;
    Reservation reservation;
  };
  struct Call {
    Client* client = nullptr;
    uint64_t sequence = 0;
    uint64_t fingerprint = 0;
    bool is_push = false;
    bool is_under_way = false;
    std::shared_ptr<const CallAnswer> answer;
    std::deque<std::shared_ptr<Waiter>> waiters;
    Reservation reservation;
    // Where it is in latest_ or superseded_, if no attempt is under way.
    absl::Duration ended;
    ByEnd::iterator age;
  };
  struct Client {
    ClientKey key;
    std::map<uint64_t, Call> calls;
    uint32_t num_ended = 0;
    // The call of the highest sequence among those that have ended and have
    // no attempt under way.
    Call* latest = nullptr;
    // The calls up to here that are not in `calls` are forgotten.
    uint64_t forgotten = 0;
    absl::Duration last_used;
    std::list<Client*>::iterator use;
    Reservation reservation;
  };
  // Dropped holds what is destroyed after the lock.
  using Dropped = std::vector<std::map<uint64_t, Call>::node_type>;

  CallWindow(const CallWindowOptions& options, Alarms* alarms,
             RefPtr<BudgetAccount> account);

  // Checks that the caller knows this incarnation, or the call's answer is
  // there.
  absl::Status CheckMayCall(const Caller& caller, const CallId& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Call*> FindOrAdd(const Caller& caller,
                                  const CallIdentity& call, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Client*> FindOrAddClient(const ClientKey& key,
                                          Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the call to drop first for want of bytes; null if there is none.
  Call* LeastUseful() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops answers, if it must, to free memory for `bytes`: of the latest only
  // `done_with`, which may be null.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes, Call* done_with,
                                      Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status CheckRemembered(const Client& client, uint64_t sequence);
  Attempt BeginAttempt(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets an attempt wait for the one that is under way.
  absl::StatusOr<std::shared_ptr<Waiter>> Park(Call& call,
                                               uint64_t request_bytes,
                                               absl::Duration timeout,
                                               AttemptCallback& on_attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWait(const std::shared_ptr<Waiter>& waiter, absl::StatusCode code);
  // Counts the end of a wait; its callback is the caller's to call.
  AttemptCallback TakeCallback(Waiter& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Call& call, const CallAnswer& answer);
  void RestoreCall(const CallSnapshot& saved);
  void RestoreForgotten(const CallSnapshot& saved);
  void EndAttempt(Call& call);
  // Remembers the answer of a call without an attempt, or forgets the call.
  void Retire(Call& call, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSuperseded(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim(Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TrimClient(Client& client, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldClients() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a client of which nothing has been remembered yet.
  void ForgetIfUnused(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Call& call, Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unlist(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallWindowOptions options_;
  Alarms& alarms_;
  const RefPtr<BudgetAccount> account_;
  // A fair one, so that the lockings of Save let calls in between.
  mutable FairMutex mutex_;
  absl::btree_map<ClientKey, std::unique_ptr<Client>> clients_
      ABSL_GUARDED_BY(mutex_);
  // Clients by last use, the oldest first.
  std::list<Client*> by_use_ ABSL_GUARDED_BY(mutex_);
  // Calls without an attempt under way: the latest of each client, and the
  // others.
  ByEnd latest_ ABSL_GUARDED_BY(mutex_);
  ByEnd superseded_ ABSL_GUARDED_BY(mutex_);
  // Count the bytes of all these calls, and of the superseded ones.
  uint64_t ended_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t superseded_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Not OK: no attempt waits any more.
  absl::Status no_waits_ ABSL_GUARDED_BY(mutex_);
  WaitStatus waits_ ABSL_GUARDED_BY(mutex_) = {.reason = WaitReason::kAttempt};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_WINDOW_H_
