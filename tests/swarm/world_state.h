// What is known about the servers of a plan and the calls made to them, and
// what must hold for every answer.

#ifndef TENSORKV_TESTS_SWARM_WORLD_STATE_H_
#define TENSORKV_TESTS_SWARM_WORLD_STATE_H_

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
#include "google/protobuf/repeated_ptr_field.h"
#include "tests/swarm/cluster.h"
#include "tests/swarm/scheduler.h"
#include "tests/swarm/space.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv::swarm {

// Remembers the first thing that is wrong. Thread-safe where there is no
// scheduler.
class WorldState {
 public:
  std::optional<std::string> finding() const {
    MutexLock lock(&mutex_);
    return finding_;
  }
  uint64_t num_calls() const { return num_calls_; }

 protected:
  // Both outlive it. Values are not looked at without a scheduler.
  WorldState(const Plan& plan, Scheduler* scheduler);
  ~WorldState() = default;

  // --- The ways of every call (world_state.cc) -------------------------------
  CallPtr NewCall(const Action& action, bool changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttemptPtr Begin(const CallPtr& call, bool blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CallContext ContextOf(const Attempt& attempt) const;
  // Returns whether a server that has answered the call has the answer still:
  // its client has not told that it needs it no more, and no call takes much
  // memory.
  bool IsRemembered(const Call& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  void Advance(absl::Duration by);
  bool is_stepped() const { return scheduler_ != nullptr; }

  // --- What is checked (world_state.cc) --------------------------------------
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
  // These do the same for the rules of the namespace.
  void BeginRuling(Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndRuling(Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartAnew(Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckWaits(absl::string_view when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckBudgets(bool is_empty);
  void CheckBudgets(Server& server, bool is_empty);
  static void DeleteNamedSnapshots(Server& server,
                                   const std::string& name_space);
  void CheckOpenRounds(const SpacePlan& plan, const NamespaceStatus& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckMemory(const NamespaceStatus& status, bool is_empty)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckRevision(const NamespaceStatus& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckListed(const Call& call, const std::array<Known, kNumKeys>& was,
                   const Versions& floors,
                   const google::protobuf::RepeatedPtrField<KeyStatus>& listed,
                   bool is_whole, uint64_t num_rulings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckNextStep(const Call& call, const Space& space, uint32_t rank,
                     Step next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckParts(const Attempt& attempt, const PullRequest& request,
                  const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveAll(const Attempt& attempt, const Keys& keys,
                  const PullReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- What holds when nothing can go on (world_quiet.cc) --------------------
  void CheckAgain();
  // Records that the call's contributions of that step were taken.
  void RecordArrival(const Attempt& attempt, Step step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records that the attempt may bring its contributions, or may have.
  void RecordContributed(const Attempt& attempt, Step step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks the step that a worker is told who keeps its lease.
  void CheckStepToRepush(const Space& space, uint32_t rank, Step next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What may fail rounds begins, or ends.
  void BeginThreat() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndThreat() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks an answer to the worker of that rank.
  void CheckAskedAgain(const Attempt& attempt, uint32_t rank,
                       const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckRemembered(const Attempt& attempt, uint32_t rank,
                       const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckKeptOut(const Attempt& attempt, uint32_t rank, Step step,
                    const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<uint64_t> MostOpenRounds(const Space& space) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckHeadroom(MemoryTensorStore& store, std::vector<uint64_t>& rooms);
  void CheckRule(const Call& call, const Space& space, const KeyStatus& listed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Who has the keys (world_routes.cc) ------------------------------------
  bool is_cluster() const { return plan_.num_servers > 1; }
  // The server that owns the key, or for no key is the namespace's home.
  uint32_t OwnerOf(const Space& space, std::optional<uint32_t> key);
  // The server that the actor's client takes for the owner: it learns of moves
  // when it is refused, or of itself.
  uint32_t OwnerFor(uint32_t actor, const Space& space, uint32_t key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the call may be made again, by who owns its keys now.
  bool Route(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OwnsForSure(const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckRefusal(const Attempt& attempt, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Plan& plan_;
  Scheduler* const scheduler_;
  FakeAlarms alarms_;
  Admin admin_;
  const std::unique_ptr<TaskRunner> sums_;
  // None ever goes; those that others look at are not moved.
  Servers servers_;
  std::atomic<uint64_t> num_calls_ = 0;
  // The budget of each namespace that has one, as it was when it was made.
  std::vector<uint64_t> spans_;

  mutable Mutex mutex_;
  std::vector<Space> spaces_ ABSL_GUARDED_BY(mutex_);
  std::vector<AttemptPtr> under_way_ ABSL_GUARDED_BY(mutex_);
  std::array<std::vector<CallPtr>, kNumActors> made_ ABSL_GUARDED_BY(mutex_);
  std::array<uint64_t, kNumActors> last_sequence_ ABSL_GUARDED_BY(mutex_) = {};
  // The highest that each has told.
  std::array<uint64_t, kNumActors> answered_below_ ABSL_GUARDED_BY(mutex_) = {};
  // By uid, key and version.
  std::map<std::tuple<uint64_t, uint32_t, Version>, Elements> values_
      ABSL_GUARDED_BY(mutex_);
  std::vector<WholeCall> whole_calls_ ABSL_GUARDED_BY(mutex_);
  // The versions that named snapshots have, as far as they were read: by space,
  // generation and number.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>,
           std::map<uint32_t, Version>>
      named_ ABSL_GUARDED_BY(mutex_);
  // What was read of a snapshot of parts, and put into it.
  struct PartsRead {
    std::map<uint32_t, Version> versions;
    // Of a part by prefixes: the least versions that it may have.
    std::map<uint32_t, Version> least;
    // Of parts that have the keys of their calls: what each call has made.
    std::vector<std::map<uint32_t, Version>> calls;
  };
  // By space, generation and number.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, PartsRead> parts_
      ABSL_GUARDED_BY(mutex_);
  // The next number of which parts are pushed, by space.
  std::map<uint32_t, uint64_t> next_parts_ ABSL_GUARDED_BY(mutex_);
  // The last tokens of values that were read, by space and key, and what each
  // token names.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::string>> held_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Tensor> by_token_ ABSL_GUARDED_BY(mutex_);
  // How many moves or restores of parts of a cluster are under way.
  int num_moving_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_restoring_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_snapshots_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many calls that create or delete a namespace are under way.
  int num_naming_ ABSL_GUARDED_BY(mutex_) = 0;
  // How often servers have begun or ended to move, restore or learn something.
  uint64_t num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By uid.
  std::map<uint64_t, ToldRevision> told_ ABSL_GUARDED_BY(mutex_);
  // The last messages of moves, each with its receiver.
  std::vector<std::pair<uint32_t, MoveRequest>> messages_
      ABSL_GUARDED_BY(mutex_);
  // By actor.
  std::array<ClusterPlacement, kNumActors> placements_seen_
      ABSL_GUARDED_BY(mutex_);
  // Counts what begins and what is answered, and when anything last began or
  // ended that may fail rounds; how much of that is under way.
  uint64_t moment_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_threat_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_threats_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_failed_device_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_moved_ ABSL_GUARDED_BY(mutex_) = false;
  // What a store of its own holds back for a move, and since when.
  std::optional<PartitionSet> fenced_ ABSL_GUARDED_BY(mutex_);
  uint64_t fenced_since_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> finding_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_WORLD_STATE_H_
