// The contributions that a worker may have to push again.

#ifndef TENSORKV_CLIENT_INTERNAL_WORKER_OPEN_CONTRIBUTIONS_H_
#define TENSORKV_CLIENT_INTERNAL_WORKER_OPEN_CONTRIBUTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// Keeps what a worker has pushed until the rounds are known to have closed, in
// the order of steps. Tensors are shared, not copied. Thread-safe.
//
// A round is known to have closed when a pull of its key succeeds that began
// after the contribution waited at the server, since a worker's pull waits
// for what it has contributed to; and when contributions wait at the server for
// so many later steps of the key as it has rounds of a key open.
//
// A contribution whose round had closed without it may be carried: then it is
// kept until the round that was to take it, or a later one, is known to be in
// the value, or it is too late to be carried again. The worker's next step is
// none of a contribution that is carried.
//
// When the server goes back to an earlier state, all contributions are
// forgotten, and nothing is added until Resume is called: it would be made for
// a state that is gone.
class OpenContributions {
 public:
  using Entries = std::shared_ptr<const std::vector<PushEntry>>;
  // Contribution holds what one call has pushed.
  struct Contribution {
    Step step = 0;
    // Tells the calls of a step apart, in their order.
    uint64_t number = 0;
    Entries entries;
    // The round of a later step is to take it.
    bool is_carried = false;
  };
  // By the step whose round is to take them, as replies name it.
  using Carried = absl::btree_map<Step, std::vector<PushEntry>>;

  // The server has at most so many rounds of a key open; 0 where the namespace
  // has no rounds.
  explicit OpenContributions(uint32_t max_open_rounds)
      : max_open_rounds_(max_open_rounds) {}

  // Returns a number that rises when the server goes back.
  uint64_t life() const;
  // Keeps `entries` from before they are pushed, for a push that was begun in
  // that life. Errors: FailedPrecondition (SERVER_RESTARTED): the server has
  // gone back since, or Resume was not called since it has.
  absl::StatusOr<Contribution> Add(uint64_t life, Step step,
                                   std::vector<PushEntry> entries);

  // Makes NextStep return no step below `first`, since the server awaits none
  // of this worker.
  void BeginWith(Step first);
  // Forgets all contributions, since the server has gone back to a state of
  // which `next` is the next step.
  void GoBackTo(Step next);
  // Takes in that the worker, before it came back, has pushed the steps up to
  // `last`, which IsRepeating counts.
  void RepeatUpTo(Step last);
  // Returns whether servers may have contributions to later steps than any that
  // was added, from before one of them went back, or the worker came back.
  bool IsRepeating() const;
  // Returns whether the server has gone back, and Resume was not called since.
  bool IsForgetting() const;
  // Returns OK, or the error of Add where the contribution was forgotten
  // because the server has gone back.
  absl::Status CheckKept(const Contribution& contribution) const;

  // Takes in that the contribution waits at the server for its rounds to close.
  // Removes entries for earlier rounds of its keys that cannot be open any
  // more.
  void SetWaiting(const Contribution& contribution);

  // Removes a contribution that was refused, as if it had not been made.
  void Remove(const Contribution& contribution);

  // Removes the entries for `key`, whose round is closed or gone.
  void RemoveKey(const Contribution& contribution, absl::string_view key);

  // Removes the contribution, whose rounds have closed, and what is here of
  // earlier steps for its keys, whose rounds have closed too.
  void RemoveUpTo(const Contribution& contribution);

  // Takes in that rounds of later steps are to take these entries of the
  // contribution, which are kept as contributions of their own from now on.
  void SetCarried(const Contribution& contribution, Carried carried);

  // Calls SetWaiting or RemoveUpTo, as the reply to the push of the
  // contribution says, of which SetCarried knows what is carried.
  void OnPushReply(const PushReply& reply, const Contribution& contribution);

  // Returns a number that tells RemoveWaiting which contributions wait at the
  // server now.
  uint64_t WaitingMark() const;
  // Removes the entries for `keys` that waited at the server when WaitingMark
  // returned `waiting`: a pull that began then has read the keys.
  void RemoveWaiting(const std::vector<std::string>& keys, uint64_t waiting);

  // Returns all contributions, in the order in which they have to be pushed.
  std::vector<Contribution> InOrder() const;

  // Returns whether there is an entry of that step for that key, carried or
  // not.
  bool Has(Step step, absl::string_view key) const;
  // Returns whether a call that failed so may succeed once all is pushed again.
  bool IsRepairable(const absl::Status& status) const;

  // Returns the step to push next: the lowest of all contributions that are not
  // carried or, if there are none, the one after the highest that has waited or
  // closed; but none below the first that the server awaits.
  Step NextStep() const;
  // Returns NextStep, which is what comes now. After GoBackTo this ends the
  // forgetting, and runs `begin_anew` before: it must not call this object.
  Step Resume(absl::FunctionRef<void()> begin_anew = [] {});

 private:
  bool Forgets(const Contribution& contribution) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return contribution.number <= last_forgotten_;
  }

  Step LowestOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  using Keys = absl::flat_hash_set<absl::string_view>;
  struct Kept {
    Entries entries;
    uint64_t waiting_since = 0;  // 0: does not wait
    Step carried_to = 0;         // 0: is not carried
  };
  using Id = std::pair<Step, uint64_t>;
  using KeptByStep = std::map<Id, Kept>;

  void RemoveAll(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the contribution from waiting_[key].
  void RemoveFromWaiting(Id id, absl::string_view key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the entries for these keys. Returns the contribution after that
  // one.
  KeptByStep::iterator RemoveKeys(KeptByStep::iterator kept, const Keys& keys)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what is for rounds of steps up to `step` of the keys of `entries`.
  void RemoveUpTo(Step step, const std::vector<PushEntry>& entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what rounds of these keys of steps up to `step` were to take.
  void RemoveCarried(Step step, const Keys& keys)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what is carried for the key, but for the latest steps, of which
  // there are as many as can be carried again.
  void RemoveTooLate(absl::string_view key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what is for rounds of these keys that cannot be open any more.
  void RemoveBelowOpenRounds(const std::vector<PushEntry>& entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t max_open_rounds_;
  mutable Mutex mutex_;
  KeptByStep kept_ ABSL_GUARDED_BY(mutex_);
  // By key: those of kept_ that have the key and wait at the server. So calls
  // look at their own keys only.
  absl::flat_hash_map<std::string, std::set<Id>> waiting_
      ABSL_GUARDED_BY(mutex_);
  uint64_t life_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  Step first_step_ ABSL_GUARDED_BY(mutex_) = 1;
  // The highest step that has waited or closed.
  Step highest_step_ ABSL_GUARDED_BY(mutex_) = 0;
  // The highest step that was added, or that Resume has returned. The first
  // Resume after GoBackTo lowers it.
  Step highest_known_ ABSL_GUARDED_BY(mutex_) = 0;
  // True from GoBackTo until Resume is called.
  bool is_forgetting_ ABSL_GUARDED_BY(mutex_) = false;
  // The highest step that was pushed before it is repeated.
  Step last_repeated_ ABSL_GUARDED_BY(mutex_) = 0;
  // Contributions up to this number are forgotten.
  uint64_t last_forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_WORKER_OPEN_CONTRIBUTIONS_H_
