// A store in which the steps of a plan are taken, and what is known about it.

#ifndef TENSORKV_TESTS_SWARM_WORLD_H_
#define TENSORKV_TESTS_SWARM_WORLD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "service/store/memory_tensor_store.h"
#include "tests/swarm/key_ledger.h"
#include "tests/swarm/plan.h"
#include "tests/swarm/scheduler.h"
#include "tests/swarm/space.h"
#include "tests/swarm/stepped_backend.h"

namespace tensorkv::swarm {

// Takes steps, and remembers the first thing that is wrong. Thread-safe where
// there is no scheduler.
class World {
 public:
  // Without a scheduler calls are made on the thread that takes the step, and
  // values are not looked at: many orders are possible. Both outlive the world.
  World(const Plan& plan, Scheduler* scheduler);
  // REQUIRES: Finish has been called, and has found nothing.
  ~World();

  void Take(const Action& action);
  // Ends all that is under way and removes everything.
  void Finish();

  std::optional<std::string> finding() const {
    MutexLock lock(&mutex_);
    return finding_;
  }
  uint64_t num_calls() const { return num_calls_; }

 private:
  class Reader;
  friend class Reader;

  // --- Pushes (world_pushes.cc) ----------------------------------------------
  void Work(const Action& action);
  void PushFreely(const Action& action);
  void PushAs(const Action& action, bool as_worker);
  CallPtr PreparePush(const Action& action, bool as_worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PushRequest PushOf(const Action& action, Call& call, bool with_rows)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeEntries(const Action& action, uint32_t key, bool with_rows,
                   PushRequest& request, Contribution& contribution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakePush(const CallPtr& call, const PushRequest& request, bool as_worker,
                bool pulls);
  void EndPush(const AttemptPtr& attempt, bool as_worker, Step step,
               const std::vector<uint32_t>& keys,
               const absl::StatusOr<PushReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndPushPull(const AttemptPtr& attempt, bool as_worker, Step step,
                   const std::vector<uint32_t>& keys,
                   const absl::StatusOr<PullReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePush(const Attempt& attempt, const std::vector<uint32_t>& keys,
                const PushReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWork(const Call& call, Step step, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Other calls (world_calls.cc) ------------------------------------------
  void Init(const Action& action);
  void EndInit(const AttemptPtr& attempt, OnExisting on_existing,
               const std::map<uint32_t, Elements>& values,
               const absl::StatusOr<InitReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pull(const Action& action);
  void EndPull(const AttemptPtr& attempt, const PullRequest& request,
               const absl::StatusOr<PullReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckRows(const Attempt& attempt, const PullRequest& request,
                 const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckListed(const Call& call, const std::array<Known, kNumKeys>& was,
                   const std::array<Version, kNumKeys>& floors,
                   const std::vector<KeyStatus>& listed, bool is_whole)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveAll(const Attempt& attempt, const std::vector<uint32_t>& keys,
                  const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Delete(const Action& action);
  void Look(const Action& action);
  void ChangeRules(const Action& action);
  void ChangeNamespaces(const Action& action);
  void Repeat(const Action& action);
  void Cancel(const Action& action);
  // Makes a call that blocks its thread and answers with a status.
  void Ask(const CallPtr& call, std::function<absl::Status()> ask,
           std::function<void(const absl::Status&)> end);

  // --- Workers (world_workers.cc) --------------------------------------------
  void Join(const Action& action, bool replaces);
  void KeepAlive(const Action& action);
  void Leave(const Action& action);
  void Die(const Action& action);
  void Barrier(const Action& action);
  void TakeRank(Space& space, uint32_t actor, uint32_t rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckNextStep(const Call& call, const Space& space, uint32_t rank,
                     Step next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Snapshots (world_snapshots.cc) ----------------------------------------
  void Snapshot(const Action& action);
  void Restore(const Action& action);
  void EndRestore(const std::vector<SavedSpace>& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginAgain(Space& space, const SavedSpace& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move(const Action& action);
  absl::Status MovePartitions(const Action& action, const PartitionSet& set);
  void CheckSaved(uint32_t at, const SavedSpace& saved,
                  const std::array<Version, kNumKeys>& floors)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- The ways of every call (world.cc) -------------------------------------
  CallPtr NewCall(const Action& action, bool changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttemptPtr Begin(const CallPtr& call, bool blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CallContext ContextOf(const Attempt& attempt) const;
  // The end of an attempt: `end` is told once, with the mutex held; `text` is
  // what has to be the same for every attempt.
  void EndAttempt(const AttemptPtr& attempt, const absl::Status& status,
                  const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(Scheduler::Task task);
  bool is_stepped() const { return scheduler_ != nullptr; }

  // --- What is checked (world.cc) --------------------------------------------
  void Find(absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Observe(Space& space, uint32_t key, Version version, Version floor,
               const Elements& value, absl::string_view by)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RaiseFloor(Space& space, uint32_t key, Version version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginChange(Space& space, uint32_t key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether nobody else has changed it meanwhile.
  bool EndChange(Space& space, uint32_t key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartAnew(Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeEvent(const Action& action);
  void Resume(const Action& action);
  void Settle();
  void Advance(absl::Duration by);
  void EndWaits();
  void CheckWaits(absl::string_view when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckBudgets(bool is_empty);
  void RemoveKeys(const std::string& name_space);

  const Plan& plan_;
  Scheduler* const scheduler_;
  FakeAlarms alarms_;
  SteppedBackend backend_;
  std::unique_ptr<MemoryTensorStore> store_;
  uint64_t empty_bytes_ = 0;
  std::atomic<uint64_t> num_calls_ = 0;

  mutable Mutex mutex_;
  std::vector<Space> spaces_ ABSL_GUARDED_BY(mutex_);
  std::vector<AttemptPtr> under_way_ ABSL_GUARDED_BY(mutex_);
  std::array<std::vector<CallPtr>, kNumActors> made_ ABSL_GUARDED_BY(mutex_);
  std::array<uint64_t, kNumActors> last_sequence_ ABSL_GUARDED_BY(mutex_) = {};
  // What each version was, by uid, key and version.
  std::map<std::tuple<uint64_t, uint32_t, Version>, Elements> values_
      ABSL_GUARDED_BY(mutex_);
  // Pushes of several keys that were acknowledged, for what has to be whole.
  struct WholeCall {
    uint32_t space = 0;
    uint64_t generation = 0;
    std::string what;
    std::map<uint32_t, Version> versions;
  };
  std::vector<WholeCall> whole_calls_ ABSL_GUARDED_BY(mutex_);
  bool is_moving_ ABSL_GUARDED_BY(mutex_) = false;
  int num_snapshots_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<std::vector<SavedSpace>> saved_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> finding_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_WORLD_H_
