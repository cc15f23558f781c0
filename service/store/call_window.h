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
  // Bound on the clients that are remembered at a time.
  uint32_t max_clients = 100'000;
  // How long a client is remembered after its last call began or ended.
  absl::Duration max_age = absl::Minutes(15);
  // Bounds the answers to ended calls; the latest is kept whatever its size.
  uint64_t max_bytes = 64 << 20;
  // Bound on the wait for another attempt of the same call.
  absl::Duration max_wait = absl::Minutes(5);
};

// Recognises repeated calls. Thread-safe; owned by shared_ptr. A client is a
// caller and a client id: who knows another caller's client id neither reads
// its answers nor takes its place. Each client has one call at a time, and the
// call of its highest sequence is the one that is remembered: who makes a call
// has had the answer to the one before.
//
// Whoever makes a call enters here first, and gets an Attempt when no other
// attempt of that call is under way. If that has the answer that an earlier
// attempt has kept, the call was made; else it is to be made now. Attempts that
// wait take no thread.
//
// Invariants:
//  1. A call has at most one attempt under way.
//  2. An answer that was kept is never replaced by a missing one: after Keep,
//     every later attempt gets that answer, or FailedPrecondition once it has
//     been dropped, for as long as the client is remembered.
//  3. A client whose call has an attempt under way is not dropped. If a later
//     call comes, the attempts of the former go on, and its answer is theirs.
//  4. The bytes of all that is remembered are reserved from the account.
//
// Where answers take too many bytes, those go first whose calls ended first. A
// client is dropped when it has not called for max_age; a call that is repeated
// then, which nobody may do, counts as new.
class CallWindow : public std::enable_shared_from_this<CallWindow> {
  struct Call;
  using CallPtr = std::shared_ptr<Call>;

 public:
  // The right to make a call, until End or destruction. Move-only; used by one
  // thread at a time.
  class Attempt {
   public:
    Attempt(Attempt&&) = default;
    Attempt& operator=(Attempt&& other) = delete;
    ~Attempt() { End(); }

    // Returns the answer that an earlier attempt has kept; null if none has, so
    // that the call is to be made.
    const CallAnswer* answer() const { return answer_.get(); }

    // Has the window remember `answer` to the call; the message of an error is
    // cut short where memory lacks. REQUIRES: End has not been called.
    void Keep(const CallAnswer& answer);

    // Ends the attempt, and runs the callback of the next one, if one waits, on
    // this thread. If none waits, a call whose answer was never kept is
    // forgotten, as if it had not been made.
    void End();

   private:
    friend class CallWindow;
    Attempt(std::shared_ptr<CallWindow> window, CallPtr call,
            std::shared_ptr<const CallAnswer> answer)
        : window_(std::move(window)),
          call_(std::move(call)),
          answer_(std::move(answer)) {}

    std::shared_ptr<CallWindow> window_;  // null after the end
    CallPtr call_;
    std::shared_ptr<const CallAnswer> answer_;
  };
  using AttemptCallback = absl::AnyInvocable<void(absl::StatusOr<Attempt>) &&>;

  // Reserves from `account`; `alarms` outlives the window.
  static std::shared_ptr<CallWindow> Create(const CallWindowOptions& options,
                                            Alarms* alarms,
                                            RefPtr<BudgetAccount> account);

  // Calls `on_attempt` once, now or on the thread that ends the attempt before,
  // unlocked. Errors: InvalidArgument (no client id or sequence;
  // another call has that name) · FailedPrecondition (a later call has come, or
  // the answer was dropped) · DeadlineExceeded and Cancelled (of `context`,
  // while another attempt ran) · Unavailable (too many attempts wait; EndWaits)
  // · ResourceExhausted (no memory to remember it) · the caller's, for calls
  // that are not remembered.
  void Enter(const CallIdentity& call, const CallContext& context,
             AttemptCallback on_attempt);

  // Returns whether an attempt of that call is under way or has left an answer:
  // then checks of a new call do not apply to it. Errors: InvalidArgument and
  // FailedPrecondition as of Enter.
  absl::StatusOr<bool> Knows(const Caller& caller, const CallId& id) const;

  // Calls back all waiting attempts with `status`; attempts that would wait
  // later get it at once.
  void EndWaits(const absl::Status& status);

  // Returns each client's call of the highest sequence, if it has an answer or
  // is under way, or its answer was dropped. Locks the mutex for some clients
  // at a time; `paused` gets how long it was locked each time.
  std::vector<CallSnapshot> Save(
      absl::FunctionRef<void(absl::Duration)> paused) const;
  // Remembers calls that were saved, for as long as if they had just ended;
  // fewer if not all fit. REQUIRES: nobody has called yet.
  void Restore(const std::vector<CallSnapshot>& calls);

  // Returns how many attempts wait now, and what waiting has cost.
  WaitStatus waits() const;

 private:
  struct Client;
  // The name of a caller, and the client id that it goes by.
  using ClientKey = std::pair<std::string, std::string>;
  // A Waiter is an attempt that waits for the one before.
  struct Waiter {
    CallPtr call;
    AttemptCallback on_attempt;  // null when it has ended
    Alarms::Id alarm = 0;
    absl::Duration started;
    Reservation reservation;
  };
  using WaiterPtr = std::shared_ptr<Waiter>;
  struct Call {
    // Null once a later call of the client has come, or the answer was dropped.
    Client* client = nullptr;
    CallId id;
    uint64_t fingerprint = 0;
    bool is_push = false;
    bool is_under_way = false;
    std::shared_ptr<const CallAnswer> answer;
    Reservation reservation;
    // The client's last sequence before.
    uint64_t former_sequence = 0;
  };
  struct Client {
    bool Has(uint64_t sequence) const {
      return call != nullptr && call->id.sequence == sequence;
    }

    ClientKey key;
    // The one of the highest sequence; null if its answer was dropped, or
    // nothing has come of it.
    CallPtr call;
    // No call up to here but `call` is remembered.
    uint64_t last_sequence = 0;
    absl::Duration last_used;
    std::list<Client*>::iterator use;
    // Where it is in ended_, if its call has an answer and no attempt.
    std::list<Client*>::iterator end;
    Reservation reservation;
  };

  CallWindow(const CallWindowOptions& options, Alarms* alarms,
             RefPtr<BudgetAccount> account);

  // Checks that the caller knows this incarnation, or the call's answer is
  // there.
  absl::Status CheckMayCall(const Caller& caller, const CallId& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<CallPtr> FindOrAdd(const Caller& caller,
                                    const CallIdentity& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Client*> FindOrAddClient(const ClientKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<CallPtr> Add(Client& client, const CallIdentity& identity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that `sequence` is above all that the client has used.
  static absl::Status CheckRemembered(const Client& client, uint64_t sequence);
  // Adds an attempt that waits; takes `on_attempt` over unless that fails.
  absl::StatusOr<WaiterPtr> Park(const CallPtr& call, uint64_t request_bytes,
                                 absl::Duration timeout,
                                 AttemptCallback& on_attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWait(const WaiterPtr& waiter, absl::StatusCode code);
  // Ends the wait, counts it, and returns the callback, which the caller calls
  // without the mutex.
  AttemptCallback TakeCallback(Waiter& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Call& call, const CallAnswer& answer);
  void RestoreCall(const CallSnapshot& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttempt(const CallPtr& call);
  // Remembers the answer of a call without an attempt; forgets a call without
  // an answer.
  void Retire(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops answers and clients that are too old, or too many.
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the client's call and its answer: an attempt that is under way
  // keeps them.
  void Drop(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the client from ended_.
  void Unlist(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkUsed(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a client of which nothing has been remembered yet.
  void ForgetIfUnused(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallWindowOptions options_;
  Alarms& alarms_;
  const RefPtr<BudgetAccount> account_;
  // A fair one, so that the lockings of Save let calls in between.
  mutable FairMutex mutex_;
  absl::btree_map<ClientKey, std::unique_ptr<Client>> clients_
      ABSL_GUARDED_BY(mutex_);
  // Clients by last use, the oldest first.
  std::list<Client*> by_use_ ABSL_GUARDED_BY(mutex_);
  // Those whose calls have an answer and no attempt, by their ends.
  std::list<Client*> ended_ ABSL_GUARDED_BY(mutex_);
  // Counts the bytes of all these calls.
  uint64_t ended_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By call: the attempts that wait for the one under way.
  std::map<const Call*, std::deque<WaiterPtr>> waiters_ ABSL_GUARDED_BY(mutex_);
  // If not OK: what EndWaits was given, which attempts get that would wait.
  absl::Status no_waits_ ABSL_GUARDED_BY(mutex_);
  WaitStatus waits_ ABSL_GUARDED_BY(mutex_) = {.reason = WaitReason::kAttempt};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_WINDOW_H_
