// The one way to change a namespace.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_TRANSACTION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_TRANSACTION_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "base/task_pool.h"
#include "service/store/keyspace/pull/delta_cache.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/keyspace/snapshots/named_snapshots.h"
#include "service/store/keyspace/snapshots/open_snapshots.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/updates/update_pass.h"
#include "service/store/keyspace/waits.h"

namespace tensorkv {

struct NamespaceState;

// A job: contributions of a key's round that are to be summed.
struct PartialSumOfKey {
  RefPtr<StoredKey> key;
  PartialSum partial;
  // Is, of a sum over servers, the version before the round.
  Version version = 0;

  uint64_t size_bytes() const {
    uint64_t num_elements = 0;
    for (const Slot& slot : partial.slots) {
      num_elements += key->NumElementsOf(slot);
    }
    return num_elements * SizeOf(AccumulateType(key->dtype()));
  }
};

// WorkOfChange is what follows from a change and must be computed without the
// mutex.
struct WorkOfChange {
  UpdatePass updates;
  std::vector<PartialSumOfKey> partial_sums;

  bool empty() const { return updates.empty() && partial_sums.empty(); }
  // Returns the bytes that are read and written, more where much is computed of
  // each.
  uint64_t work_bytes() const {
    uint64_t bytes = updates.work_bytes();
    for (const PartialSumOfKey& partial : partial_sums)
      bytes += partial.size_bytes();
    return bytes;
  }
};

// A change of a namespace, from the moment that its mutex is locked to that
// when all that follows has been done. Used by one thread at a time.
//
// It locks the mutex. Code that is given a Transaction changes what the mutex
// guards, and says what follows: answers to send, things that go, events,
// updates to run. Unlock ends the change; the destructor unlocks if need be and
// then does what follows, in this order: what was dropped goes, so that its
// memory is free when somebody hears of the end; the observer is told; answers
// are sent; work runs.
//
// What a call has reserved beside it must also be free before anybody hears of
// the end. So a Transaction stands before what owns that, and is unlocked by
// hand.
class Transaction {
 public:
  // Where the change happens. The threads of alarms and of the device serve
  // everybody, so that what may take long leaves them; kOwn serves nobody
  // else, and does all of it.
  enum class Thread { kCaller, kOwn, kAlarms, kDevice };
  // Dropped is what must not be destroyed under the mutex.
  using Dropped =
      std::variant<RefPtr<StoredKey>, std::unique_ptr<Rounds>, ClosedRounds,
                   std::list<PendingUpdate>, OpenSnapshots::FormerKeys,
                   DeltaCache::Kept>;

  explicit Transaction(NamespaceState& state, Thread thread = Thread::kCaller)
      : Transaction(state, std::defer_lock, thread) {
    Lock();
  }
  // Makes one that is locked later.
  Transaction(NamespaceState& state, std::defer_lock_t,
              Thread thread = Thread::kCaller)
      : state_(state), thread_(thread) {}
  Transaction(const Transaction&) = delete;
  ~Transaction();

  // REQUIRES: the mutex is not locked by this.
  void Lock();
  // Ends the change, if the mutex is locked. Another may follow.
  void Unlock();

  // REQUIRES for all that follows: the mutex is locked.

  NamespaceState& state() const { return state_; }

  // Returns the revision of what this admits: all of it has one, above those of
  // all that was admitted before. Whoever admits an effect that ends later
  // tells NamespaceState::revisions.
  uint64_t revision() {
    if (revision_ == 0) revision_ = NextRevision();
    return revision_;
  }
  // Records that keys, values, rules or the configuration have changed, which
  // takes effect at once: the revision that is told rises by that.
  void MarkChanged() { revision(); }

  // Has the answer of the call, which is ready, sent after the change.
  void Send(RefPtr<QueuedCall> call) {
    effects_.pushes.push_back(std::move(call));
  }
  void Send(WaitingCallPtr call) { effects_.calls.push_back(std::move(call)); }

  // Keeps `dropped`, and destroys it after the change, without the mutex.
  void Drop(Dropped dropped) { dropped_.push_back(std::move(dropped)); }
  // Returns what goes likewise of named snapshots.
  NamedSnapshots::LetGo& let_go() { return let_go_; }

  // Has the pool run `task`, which is handed over once the mutex is unlocked,
  // unless the store has ended.
  void Submit(TaskPool::Task task) { tasks_.push_back(std::move(task)); }

  // Have the observer told after the change.
  void ReportLostWorker(std::string worker) {
    effects_.lost_workers.push_back(std::move(worker));
  }
  void ReportFailedRounds(absl::string_view key, Step step,
                          const RoundFailure& failure, uint64_t num_rounds);

  // Returns the work that runs after the change; the caller adds to it.
  WorkOfChange& work() {
    if (!work_) MakeWork();
    return *work_;
  }

 private:
  // Effects are what may be done on another thread.
  struct Effects {
    std::vector<std::string> lost_workers;
    std::string failed_round;  // the first one
    uint64_t num_failed_rounds = 0;
    std::vector<RefPtr<QueuedCall>> pushes;
    std::vector<WaitingCallPtr> calls;
  };

  // Tells the observer, then sends the answers.
  static void Do(NamespaceState& state, Effects& effects);
  // Returns whether some of the answers take so long to send that the pool must
  // send them.
  bool HasSlowAnswers() const;
  static void Report(const NamespaceState& state, const Effects& effects);
  // Has the pool do what Do does.
  void DoOnPool();
  void MakeWork();
  uint64_t NextRevision();

  NamespaceState& state_;
  const Thread thread_;
  bool is_locked_ = false;
  uint64_t revision_ = 0;  // 0 as long as nobody has asked
  std::vector<Dropped> dropped_;
  NamedSnapshots::LetGo let_go_;
  std::vector<TaskPool::Task> tasks_;
  Effects effects_;
  std::optional<WorkOfChange> work_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_TRANSACTION_H_
