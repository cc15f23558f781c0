// A store, or a cluster of them, in which the steps of a plan are taken.

#ifndef TENSORKV_TESTS_SWARM_WORLD_H_
#define TENSORKV_TESTS_SWARM_WORLD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "contract/requests.h"
#include "tests/swarm/cluster.h"
#include "tests/swarm/scheduler.h"
#include "tests/swarm/space.h"
#include "tests/swarm/world_state.h"

namespace tensorkv::swarm {

// Takes steps, and remembers the first thing that is wrong. Thread-safe where
// there is no scheduler.
class World final : public WorldState {
 public:
  // Without a scheduler calls are made on the thread that takes the step, and
  // values are not looked at: many orders are possible. Both outlive the world.
  World(const Plan& plan, Scheduler* scheduler);
  // REQUIRES: Finish has been called, and has found nothing.
  ~World();

  void Take(const Action& action);
  // Ends all that is under way and removes everything.
  void Finish();

 private:
  class Mirror;

  // --- Events (world.cc) -----------------------------------------------------
  void TakePart(const Action& action);
  void Repeat(const Action& action);
  void Cancel(const Action& action);
  void TakeEvent(const Action& action);
  void Resume(const Action& action);
  void Settle();
  void EndWaits();
  void RemoveKeys(Server& server);
  void RemoveAll();
  // Has it done at each server, and all else that follows.
  void OnAllServers(const std::function<void(Server&)>& work);

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
  void AddEntries(const Action& action, uint32_t key, bool with_rows,
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
  void RecordPush(const Attempt& attempt, const Keys& keys,
                  const PushReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttemptOfWork(const Attempt& attempt, Step step,
                        const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWork(const Call& call, Step step, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Other calls (world_calls.cc) ------------------------------------------
  void Init(const Action& action);
  void EndInit(const AttemptPtr& attempt, OnExisting on_existing,
               const Values& values, const absl::StatusOr<InitReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pull(const Action& action);
  void CheckPulled(const Attempt& attempt, const PullRequest& request,
                   const PullReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetState(const Action& action);
  void EndSetState(const AttemptPtr& attempt, const Keys& keys,
                   const absl::StatusOr<SetStateReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GetState(const Action& action);
  // Has the call read by that verb of the store.
  template <typename Request>
  void SetRead(Call& call, const Request& request);
  template <typename Request>
  void EndRead(const AttemptPtr& attempt, const Request& request,
               const absl::StatusOr<PullReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Delete(const Action& action);
  void Look(const Action& action);
  void ChangeRules(const Action& action);
  void UpdateNamespace(const Action& action);
  void ChangeNamespaces(const Action& action);
  absl::Status CreateAt(uint32_t at, const CreateNamespaceRequest& request);
  absl::Status DeleteAt(uint32_t at, const std::string& name);
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

  // --- Named snapshots (world_named.cc) --------------------------------------
  void NamedSnapshot(const Action& action);
  void CreateNamed(const Action& action);
  void PullNamed(const Action& action);
  // Has some pushes take a snapshot.
  void PublishWith(const Action& action, PushRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes a call that ends some time; `check` looks at its reply.
  template <typename Request>
  void StartNamed(const Action& action, bool changes, Request request,
                  std::function<void(const ReplyTo<Request>&)> check);
  // Check what was read of a snapshot, and what a push has put into one.
  void CheckNamed(uint32_t at, const PullRequest& request,
                  const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordPublished(uint32_t at, uint64_t number,
                       const std::map<uint32_t, Version>& versions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Snapshots of parts (world_parts.cc) -----------------------------------
  // Has some pushes be parts of snapshots.
  void PublishPart(const Action& action, Call& call, PushRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has later pushes try a higher number.
  void PassPart(const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Check what was read of one, and what a push has put into it.
  void CheckOfParts(uint32_t at, const PullRequest& request,
                    const PullReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordPart(const Call& call, const PublishedSnapshot& published,
                  const std::map<uint32_t, Version>& versions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckCallsOf(uint64_t number, const PartsRead& parts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Readers that hold values (world_held.cc) ------------------------------
  // Has some pushes say what has changed since a value that was read.
  void MakeDeltas(const Action& action, PushRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has some pulls ask for what has changed since a value that was read.
  void ShowHeld(const Action& action, PullRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the values whole of which changes have come, and checks that tokens
  // name one value each.
  PullReply MakeWhole(uint32_t at, const PullRequest& request, PullReply reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Watches (world_watch.cc) ----------------------------------------------
  void Watch(Action action);
  void TakeWatched(const Call& call, const WatchRequest& request,
                   const absl::StatusOr<WatchReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The servers whose watches tell all of the namespace's keys.
  std::vector<uint32_t> WatchedServers(const Space& space);
  void CheckWatches();
  // Has each server watched once. Returns whether none had anything to tell.
  bool WatchInVain(uint32_t at);
  // Returns what is wrong; nothing if what was told is what there is.
  std::string CompareWatched(uint32_t at);
  // What there is, by key.
  absl::StatusOr<std::map<std::string, uint64_t>> ListThere(uint32_t at);
  // Returns the newest number of each series.
  std::map<std::string, uint64_t> ListSeries(uint32_t at);

  // --- Records of steps (world_steps.cc) -------------------------------------
  void CheckSteps();
  void CheckSteps(Server& server, uint32_t at);

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
  absl::StatusOr<std::vector<SavedSpace>> SendPartitions(
      const PartitionSet& set, int num_ahead);
  void EndMove(const std::vector<SavedSpace>& moved, bool is_whole)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that all or nothing of each call is among these versions of keys.
  void CheckWhole(uint32_t at, const std::map<uint32_t, Version>& versions,
                  absl::string_view by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckSaved(uint32_t at, const Server& server, const SavedSpace& saved,
                  const Versions& floors) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Clusters (world_cluster.cc) -------------------------------------------
  void AddServer();
  void StartCluster();
  // One for each server that has keys of it, as far as its client knows.
  std::vector<Action> PartsOf(const Action& action);
  std::vector<Action> PartsByOwner(Action part)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Deliver(Server& from, const ClusterServer& to,
                       const MoveRequest& request);
  absl::Status RestoreLastOf(const std::string& server, Restoration& to);
  void MoveOrRestore(Server& server, const ClusterServer* to, uint32_t chosen);
  void MoveSome(const Action& action);
  void Learn(Server& server);
  void Disturb(const Action& action);
  void DeliverLate(const Action& action);
  void Lose(const Action& action);
  void CountAsLost(const Server& lost, bool is_given_up)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddToCluster();
  void LoseKeys(const Server& lost, const std::vector<uint32_t>& partitions,
                bool is_given_up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Heal();
  void CheckServing();

  // --- What is the same at all servers (world_ids.cc) ------------------------
  // The live servers, the namespace's home first.
  std::vector<Server*> HomeFirst(const std::string& name);
  // Creates a namespace at one server as clients of a cluster do.
  static absl::StatusOr<CreateNamespaceReply> CreateThere(
      Server& server, const CreateNamespaceRequest& request);
  // One of the members of a namespace of its own joins, or leaves.
  void JoinEverywhere(const Action& action);
  void LeaveEverywhere(const Action& action);
  // Joins as that member, and returns as whom; nobody where a server refuses.
  absl::StatusOr<Worker> JoinMember(uint32_t actor, bool is_slow);
  void CheckIds();
  void CheckMembers(Server& server, const NamespaceStatus& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckJoins();

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

  // By member: the epoch of its last Join that the home has answered, and as
  // whom it has joined everywhere; epoch 0: it has not.
  std::array<uint64_t, kNumActors> begun_ ABSL_GUARDED_BY(mutex_) = {};
  std::array<Worker, kNumActors> joined_ ABSL_GUARDED_BY(mutex_) = {};
  // By epoch: whose it is, at every server.
  std::map<uint64_t, std::pair<std::string, uint32_t>> epochs_
      ABSL_GUARDED_BY(mutex_);
  // By server and rank: the highest epoch that was there.
  std::map<std::pair<const Server*, uint32_t>, uint64_t> highest_epochs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_WORLD_H_
