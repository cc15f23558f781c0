// A store, or a cluster of them, in which the steps of a plan are taken, and
// what is known about it.

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
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "tests/swarm/cluster.h"
#include "tests/swarm/scheduler.h"
#include "tests/swarm/space.h"

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
  class Mirror;
  class Reader;
  void TakePart(const Action& action);
  // --- Pushes (world_pushes.cc) ----------------------------------------------
  void Work(const Action& action);
  void PushFreely(const Action& action);
  void PushAs(const std::vector<Action>& parts, bool as_worker);
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
               const Keys& keys, const absl::StatusOr<PushReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndPushPull(const AttemptPtr& attempt, bool as_worker, Step step,
                   const Keys& keys, const absl::StatusOr<PullReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePush(const Attempt& attempt, const Keys& keys,
                const PushReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttemptOfWork(Call& call, Step step, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWork(const Call& call, Step step, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Other calls (world_calls.cc) ------------------------------------------
  void Init(const Action& action);
  void EndInit(const AttemptPtr& attempt, OnExisting on_existing,
               const Values& values, const absl::StatusOr<InitReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pull(const Action& action);
  void EndPull(const AttemptPtr& attempt, const PullRequest& request,
               const absl::StatusOr<PullReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckRows(const Attempt& attempt, const PullRequest& request,
                 const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckListed(const Call& call, const std::array<Known, kNumKeys>& was,
                   const Versions& floors, const std::vector<KeyStatus>& listed,
                   bool is_whole) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveAll(const Attempt& attempt, const Keys& keys,
                  const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Delete(const Action& action);
  void Look(const Action& action);
  void ChangeRules(const Action& action);
  void ChangeNamespaces(const Action& action);
  absl::Status CreateAt(uint32_t at, const CreateNamespaceRequest& request);
  absl::Status DeleteAt(uint32_t at, const std::string& name);
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
  absl::Status Checkpoint(Server& server, bool is_slow);
  void Move(const Action& action);
  absl::Status MovePartitions(const Action& action, const PartitionSet& set);
  void CheckSaved(uint32_t at, const Server& server, const SavedSpace& saved,
                  const Versions& floors) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Clusters (world_cluster.cc) -------------------------------------------
  void AddServer();
  void StartCluster();
  bool is_cluster() const { return plan_.num_servers > 1; }
  // The server that owns the key, or for no key is the namespace's home.
  uint32_t OwnerOf(const Space& space, std::optional<uint32_t> key);
  // One for each server that has keys of it, as far as its client knows.
  std::vector<Action> PartsOf(const Action& action);
  // Returns whether the call may be made again, by who owns its keys now.
  bool Route(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OwnsForSure(const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckRefusal(const Attempt& attempt, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Deliver(Server& from, const ClusterServer& to,
                       const MovePartitionsRequest& request);
  absl::Status RestoreLastOf(const std::string& server, Restoration& to);
  void Turn(Server& server, const ClusterServer* to, uint32_t chosen);
  void TakeTurn(const Action& action);
  void Learn(Server& server);
  void Disturb(const Action& action);
  void DeliverLate(const Action& action);
  void Lose(const Action& action);
  void LoseKeys(const Server& lost, const std::vector<uint32_t>& partitions,
                bool is_given_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Heal();
  void CheckServing();

  // --- Mirrored namespaces (world_mirrors.cc) --------------------------------
  void ConnectMirrors();
  std::vector<Action> PartsOfMirrored(Action part)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndInitMirrored(const Call& call, const Values& values,
                       const InitReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Agree();
  bool HasAgreed(uint32_t at);
  std::vector<uint32_t> Ranks(uint32_t at, bool all);
  void AwaitEnd();

  // --- The ways of every call (world.cc) -------------------------------------
  CallPtr NewCall(const Action& action, bool changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttemptPtr Begin(const CallPtr& call, bool blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CallContext ContextOf(const Attempt& attempt) const;
  // `text` is what has to be the same for every attempt.
  void EndAttempt(const AttemptPtr& attempt, const absl::Status& status,
                  const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A callback that ends it once, by the answer or as its server dies.
  template <typename Reply>
  ReplyCallback<Reply> Ending(
      const AttemptPtr& attempt,
      std::function<void(const absl::StatusOr<Reply>&)> end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    attempt->lose = [end] { end(ServerIsGone()); };
    return [this, attempt, end = std::move(end)](absl::StatusOr<Reply> reply) {
      MutexLock lock(&mutex_);
      if (!attempt->is_lost) end(reply);
    };
  }
  Server& At(const Call& call) { return *servers_[call.server]; }
  void Run(Scheduler::Task task);
  bool is_stepped() const { return scheduler_ != nullptr; }

  // --- What is checked (world.cc) --------------------------------------------
  void Find(absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Observe(Space& space, uint32_t server, uint32_t key, Version version,
               Version floor, const Elements& value, absl::string_view by)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RaiseFloor(Space& space, uint32_t server, uint32_t key, Version version)
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
  void CheckBudgets(Server& server, bool is_empty);
  void RemoveKeys(Server& server);

  const Plan& plan_;
  Scheduler* const scheduler_;
  FakeAlarms alarms_;
  Admin admin_;
  const std::unique_ptr<TaskRunner> sums_;
  // None ever goes; those that others look at are not moved.
  Servers servers_;
  std::atomic<uint64_t> num_calls_ = 0;

  mutable Mutex mutex_;
  std::vector<Space> spaces_ ABSL_GUARDED_BY(mutex_);
  std::vector<AttemptPtr> under_way_ ABSL_GUARDED_BY(mutex_);
  std::array<std::vector<CallPtr>, kNumActors> made_ ABSL_GUARDED_BY(mutex_);
  std::array<uint64_t, kNumActors> last_sequence_ ABSL_GUARDED_BY(mutex_) = {};
  // By uid, key and version.
  std::map<std::tuple<uint64_t, uint32_t, Version>, Elements> values_
      ABSL_GUARDED_BY(mutex_);
  std::vector<WholeCall> whole_calls_ ABSL_GUARDED_BY(mutex_);
  // How many moves, or turns of servers of a cluster, are under way.
  int num_moving_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_restoring_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_snapshots_ ABSL_GUARDED_BY(mutex_) = 0;
  // How often servers have begun or ended to move, restore or learn something.
  uint64_t num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last messages of moves, each with its receiver.
  std::vector<std::pair<uint32_t, MovePartitionsRequest>> messages_
      ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> finding_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_WORLD_H_
