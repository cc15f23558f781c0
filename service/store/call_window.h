// Keeps the answers to mutating calls, so that a repeated call changes nothing.

#ifndef TENSORKV_SERVICE_STORE_CALL_WINDOW_H_
#define TENSORKV_SERVICE_STORE_CALL_WINDOW_H_

#include <bitset>
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
#include "service/store/namespace_summary.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

struct CallWindowOptions {
  // Clients that are remembered.
  uint32_t max_clients = 100'000;
  // Since the end of a call, or the last use of a client.
  absl::Duration max_age = absl::Minutes(15);
  // Bounds the answers to ended calls; the last is kept whatever its size.
  uint64_t max_bytes = 64 << 20;
  absl::Duration max_wait = absl::Minutes(5);  // for another attempt
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
//  5. Of a client's calls none is remembered below the highest answered_below
//     that it has told, but those under way, and none kMaxCallsUnderWay or more
//     above that.
//
// Answers are dropped when their client has told that it has them, when they
// are too old, and when those of all clients take too many bytes: the oldest
// first. In the last two cases a mark stays for the call, so that it is not
// made again. A client is dropped when it has not called for max_age; a call
// that is repeated then, which nobody may do, counts as new.
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

    // Calls `answer`, then lets the next attempt begin. A call whose answer was
    // never kept is forgotten: it has not happened.
    void End(absl::FunctionRef<void()> answer = [] {});

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
  // unlocked. Errors: InvalidArgument (a malformed id; another call has it) ·
  // FailedPrecondition (below answered_below, or its answer was dropped) ·
  // DeadlineExceeded and Cancelled (of `context`, while another attempt ran) ·
  // Unavailable (too many attempts wait; EndWaits) · ResourceExhausted (too far
  // above answered_below; no memory to remember it) · the caller's, for calls
  // that are not remembered.
  void Enter(const CallIdentity& call, const CallContext& context,
             AttemptCallback on_attempt);

  // Returns whether an attempt of that call is under way or has left an answer,
  // so that nothing that speaks against a new call counts. Errors: as of Enter,
  // of the id and of calls of which nobody can tell.
  absl::StatusOr<bool> Knows(const Caller& caller, const CallId& id) const;

  // Ends all waits with `status`, also those that would begin later.
  void EndWaits(const absl::Status& status);

  // Returns every client that is remembered throughout, with its calls, those
  // that are being made included. Goes through the clients some at a time;
  // `paused` hears how long each took.
  std::vector<ClientSnapshot> Save(
      absl::FunctionRef<void(absl::Duration)> paused) const;
  // Remembers what was saved, as if the calls had just ended. Of answers that
  // do not fit, marks stay. Errors: ResourceExhausted, if a client does not
  // fit. REQUIRES: nobody has called yet.
  absl::Status Restore(const std::vector<ClientSnapshot>& clients);

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
    absl::Duration end = absl::InfiniteDuration();  // of the first attempt
    // Where it is in ended_, if it is there.
    bool is_listed = false;
    ByEnd::iterator age;
  };
  struct Client {
    ClientKey key;
    // The highest that it has told.
    uint64_t answered_below = 1;
    std::map<uint64_t, Call> calls;
    // Marks calls from answered_below on that are not in `calls`, and of which
    // nobody can tell whether they were made: by their sequence modulo
    // kMaxCallsUnderWay.
    std::bitset<kMaxCallsUnderWay> marks;
    // Whether a call was made: then answered_below keeps stray attempts of it
    // from making it again.
    bool has_made_calls = false;
    absl::Duration last_used;
    std::list<Client*>::iterator use;
    Reservation reservation;
  };
  // Counts what a call takes besides its answer.
  static constexpr uint64_t kCallOverheadBytes = 384;
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
  absl::StatusOr<Client*> FindOrAddClient(const ClientKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the client's calls below the highest that it has told.
  void ForgetAnswered(Client& client, uint64_t answered_below, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status CheckCanTell(const Client& client, uint64_t sequence);
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
  static ClientSnapshot SnapshotOf(const Client& client);
  void RestoreCall(const CallSnapshot& saved, Client& client, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttempt(Call& call, absl::FunctionRef<void()> answer);
  // Remembers the answer of a call without an attempt, or forgets the call.
  void Retire(Call& call, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim(Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldClients() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a client of which nothing has been remembered yet.
  void ForgetIfUnused(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldest(Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a call without an attempt out of its client's.
  void Remove(Call& call, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a call that has ended out of ended_.
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
  // Calls with an answer and without an attempt under way, and their bytes.
  ByEnd ended_ ABSL_GUARDED_BY(mutex_);
  uint64_t ended_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Not OK: no attempt waits any more.
  absl::Status no_waits_ ABSL_GUARDED_BY(mutex_);
  WaitStatus waits_ ABSL_GUARDED_BY(mutex_) = {.reason = WaitReason::kAttempt};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_WINDOW_H_
