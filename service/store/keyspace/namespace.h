// One namespace: its keys, rules, members' rounds, waiting calls and budget.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "base/task_pool.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/call_window.h"
#include "service/store/device_set.h"
#include "service/store/keyspace/key_table.h"
#include "service/store/keyspace/owed_steps.h"
#include "service/store/keyspace/push_mode.h"
#include "service/store/keyspace/rule_bindings.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/update_pass.h"
#include "service/store/keyspace/waits.h"
#include "service/store/keyspace/worker_group.h"
#include "service/store/memory_budgets.h"
#include "service/store/names.h"
#include "service/store/store_observer.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// What namespaces share, and what outlives them all.
struct NamespaceEnvironment {
  const DeviceSet* devices = nullptr;
  Alarms* alarms = nullptr;
  // Runs what takes long, by namespace.
  std::shared_ptr<TaskPool> pool;
  const ServerBudgets* budgets = nullptr;
  // Gives every worker of the server an epoch of its own; never 0.
  std::atomic<uint64_t>* next_epoch = nullptr;
  // Hears what happens; may be null.
  StoreObserver* observer = nullptr;
  absl::Duration max_wait;
  absl::Duration min_lease;
  absl::Duration max_lease;
  uint32_t max_entries = 0;
};

// Thread-safe. Verbs as in TensorStore, for requests whose name_space is this
// one, but for call_id: once_calls.h makes a call once, with calls().
//
// One mutex guards all metadata, so that a call over many keys is checked and
// takes effect at one moment, and a pull sees one moment of all its keys.
// Elements are never read or written under it: updates run outside, in order
// per key. The thread that finds a key idle runs its own update if that is a
// small one; large ones, and what was pushed meanwhile, run on the pool
// (docs/decisions/0003-one-lock-per-namespace.md).
class Namespace : public std::enable_shared_from_this<Namespace> {
 public:
  // Errors: those of CreateNamespace.
  static absl::StatusOr<std::shared_ptr<Namespace>> Create(
      const std::string& name, NamespaceConfig config,
      const NamespaceEnvironment& environment);

  void Init(InitRequest request, CallContext context,
            ReplyCallback<InitReply> done);
  void Push(PushRequest request, const CallContext& context,
            ReplyCallback<PushReply> done);
  // The same; `names` takes the names of the entries once the push is in.
  void Push(PushRequest request, const CallContext& context,
            std::vector<PullEntry>* names, ReplyCallback<PushReply> done);
  void Pull(PullRequest request, CallContext context,
            ReplyCallback<PullReply> done);
  absl::StatusOr<DeleteReply> Delete(const DeleteRequest& request);
  absl::StatusOr<ListReply> List(const ListRequest& request) const;
  absl::StatusOr<StatReply> Stat(const StatRequest& request);

  // As in Membership.
  absl::StatusOr<JoinReply> Join(const JoinRequest& request);
  absl::StatusOr<KeepAliveReply> KeepAlive(const KeepAliveRequest& request);
  absl::Status Leave(const LeaveRequest& request);
  void Barrier(BarrierRequest request, CallContext context,
               ReplyCallback<BarrierReply> done);

  // As in Staging.
  absl::Status CheckInit(const InitRequest& request,
                         const Caller& caller) const;
  absl::Status CheckPush(const PushRequest& request, const Caller& caller);
  absl::Status Allocate(absl::Span<Tensor* const> tensors) const;

  NamespaceStatus Describe() const;
  // As in NamespaceSummaries.
  NamespaceStatus Summarize() const;
  absl::Status SetRule(const SetRuleRequest& request);
  absl::Status UnsetRule(const UnsetRuleRequest& request);
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request);

  // The answers to the calls made in this namespace.
  CallWindow& calls() { return *calls_; }
  Alarms& alarms() const { return *environment_.alarms; }

  // Random, never 0: tells this namespace from others of its name.
  uint64_t uid() const { return uid_; }
  // With every default filled in.
  const NamespaceConfig& config() const { return config_; }

  // Ends all waiting calls with `status`; calls that would wait later end with
  // it too.
  void EndWaits(const absl::Status& status);

 private:
  using KeyPtr = RefPtr<StoredKey>;
  using WorkerGroupPtr = std::unique_ptr<WorkerGroup>;
  // What a change of a rule has made for a key.
  struct NewState {
    KeyPtr key;  // stays, so that its address is no other key's
    SharedRule rule;
    RefPtr<RuleState> state;
  };
  // A change of rules on its way.
  struct RuleChange {
    // Null if the pattern is unbound: its keys get those of `bindings`.
    SharedRule rule;
    // That of the same pattern before, if it had one.
    const UpdateRule* present = nullptr;
    Glob glob;
    // After the change.
    std::shared_ptr<const RuleBindings> bindings;
    // What goes, goes without the mutex.
    absl::flat_hash_map<const StoredKey*, NewState> states;
  };

  // The calls that may wait.
  class PullCall;
  class BarrierCall;
  class HeldPush;

  // The key of one entry of a push, and where its other entries are.
  struct KeyOfEntry {
    StoredKey* key = nullptr;
    // The key's next entry in the call; 0 if there is none.
    uint32_t next = 0;
    bool is_first = false;
    // Whether its contribution is there already. Of a first entry only.
    bool is_repeat = false;
  };

  // The entries of a push by their keys.
  struct GroupedEntries {
    std::vector<KeyOfEntry> keys;
    // The answers to repeats, with the first entry of each key.
    std::vector<std::pair<uint32_t, PushResult>> repeats;
    BytesByDevice room_bytes;
    uint64_t reply_bytes = 0;
    // What it takes to note who has contributed.
    uint64_t note_bytes = 0;

    // Calls `visit` with the positions of a key's entries, from its first on.
    template <typename Visitor>
    void ForEach(uint32_t first, Visitor visit) const {
      uint32_t position = first;
      do {
        visit(position);
        position = keys[position].next;
      } while (position != 0);
    }
  };

  // What follows from a change and must happen without the mutex: replies,
  // and the end of whatever the vectors own.
  struct Replies {
    std::vector<WaitingCallPtr> calls;
    std::vector<RefPtr<PushCall>> pushes;
    std::vector<KeyPtr> released_keys;
    std::vector<std::unique_ptr<Rounds>> removed_rounds;
    std::vector<ClosedRounds> dropped_rounds;
    std::vector<std::unique_ptr<std::list<PendingUpdate>>> dropped_updates;
    // For the observer.
    std::vector<std::string> lost_workers;
    std::string failed_round;  // the first one
    uint64_t num_failed_rounds = 0;
  };

  // Open rounds that have gone with their keys, by the keys' names.
  using RoundsOfKeys = absl::flat_hash_map<absl::string_view, const Rounds*>;

  struct FoldOfKey {
    KeyPtr key;
    Fold fold;
  };
  using Folds = std::vector<FoldOfKey>;

  static constexpr size_t kMinGracesToSweep = 64;

  // What a call may do on the thread that it comes on, which others need too:
  // 1 MiB is read and written in about 0.1 ms, and a pattern is matched with a
  // key of 1 KiB in 3 us at most.
  static constexpr uint64_t kMaxBytesInline = 1 << 20;
  static constexpr size_t kMaxMatchesInline = 256;

  // A round whose grace time has begun.
  struct OpenedRound {
    std::string key;
    Step step = 0;
    uint64_t id = 0;
  };
  struct Grace {
    std::vector<OpenedRound> rounds;
    Alarms::Id alarm = 0;
  };

  // What follows from a change and must be computed without the mutex.
  struct Work {
    UpdatePass updates;
    Folds folds;

    bool empty() const { return updates.empty() && folds.empty(); }
    // What is read and written.
    uint64_t size_bytes() const;
  };

  // A push on its way into the store.
  struct Admission {
    PushRequest request;
    const CallContext& context;
    // Takes the keys' names once the push is in, if not null.
    std::vector<PullEntry>* names;
    RefPtr<PushCall> call;
    Replies& replies;
    // What the caller must compute.
    Work& work;
    std::vector<OpenedRound>& opened;
    // Of the tensors, where their keys are.
    DeviceReservations held;
    Reservation overhead;
    DeviceReservations room;
    Reservation notes;
    // Of the tensors where they have arrived, unless that is where their keys
    // are.
    Reservation held_on_host;
    // By entry, unless the device is the host: the key's device, and there the
    // tensor's copy, which takes its place when the push is in.
    std::vector<DeviceIndex> devices;
    std::vector<Tensor> copies;
  };

  Namespace(std::string name, NamespaceConfig config, WorkerGroupPtr workers,
            std::unique_ptr<PushMode> mode, SharedRule rule,
            const NamespaceEnvironment& environment);

  // namespace_init.cc
  absl::Status CheckFields(const InitRequest& request) const;
  absl::StatusOr<InitReply> InitNow(InitRequest request,
                                    const CallContext& context);
  // Makes the keys that are missing in `keys` and, unless rules or other keys
  // have changed meanwhile, inserts them.
  absl::StatusOr<std::optional<InitReply>> TryInit(InitRequest& request,
                                                   const CallContext& context,
                                                   std::vector<KeyPtr>& keys,
                                                   Replies& replies);
  // Whether a call that takes long is still wanted.
  absl::Status CheckIsWanted(const CallContext& context) const;
  // Which entries the call must create. Errors: AlreadyExists,
  // FailedPrecondition.
  absl::StatusOr<std::vector<bool>> EntriesToCreate(
      const InitRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the keys that are `wanted` and missing; gives all keys the rules of
  // `bindings`, with their states.
  absl::Status MakeKeys(InitRequest& request, const CallContext& context,
                        const std::vector<bool>& wanted,
                        const RuleBindings& bindings,
                        std::vector<KeyPtr>& keys);
  absl::StatusOr<KeyPtr> MakeKey(const InitEntry& entry);
  // Gives new keys their values, of which it may take memory out of the
  // request.
  absl::Status MakeValues(InitRequest& request, absl::Span<const KeyPtr> keys);
  // Whether a new key can keep the tensor's memory as its value.
  bool BecomesValue(const Tensor& tensor) const;
  // The tensor's buffer, which is counted as a value from now on.
  RefPtr<Buffer> TakeAsValue(Tensor& tensor);
  // Memory of the key's device, counted by `account`.
  absl::StatusOr<RefPtr<Buffer>> AllocateFor(
      const StoredKey& key, const RefPtr<BudgetAccount>& account,
      uint64_t bytes);
  absl::Status CopyValues(const InitRequest& request,
                          absl::Span<const KeyPtr> keys);
  absl::Status CopyValuesToDevices(const InitRequest& request,
                                   absl::Span<const KeyPtr> keys);
  static absl::Status CheckRule(absl::string_view key, DType dtype,
                                const UpdateRule& rule);
  // Finds the rules of new keys. Not under the mutex: matching many patterns
  // takes time.
  absl::Status FindRules(const RuleBindings& bindings,
                         const CallContext& context,
                         absl::Span<const KeyPtr> keys) const;
  // Chooses the devices of new keys, which have their rules.
  void PlaceKeys(const InitRequest& request,
                 absl::Span<const KeyPtr> keys) const;
  // Gives new keys the states of their rules. Not under the mutex: a device may
  // take its time to find memory.
  absl::Status MakeStates(absl::Span<const KeyPtr> keys);
  InitReply InsertKeys(const InitRequest& request,
                       const std::vector<bool>& wanted,
                       absl::Span<const KeyPtr> keys, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the pulls that cannot be answered without that key, which goes.
  void EndPullsOf(const StoredKey& key, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a key out of the table, with its rounds, which nobody owes any more;
  // adds them to `ended` if any is open.
  void RemoveKey(absl::string_view key, RoundsOfKeys& ended, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // namespace_staging.cc
  // Whether there is room for staging and, unless the call was made before, for
  // the bytes that `check` finds it to need.
  absl::Status CheckUnlessRepeat(
      const Caller& caller, const std::optional<CallId>& call_id,
      uint64_t staging_bytes,
      absl::FunctionRef<absl::StatusOr<BytesNeeded>()> check) const;
  absl::StatusOr<BytesNeeded> BytesFor(const InitRequest& request) const;
  absl::StatusOr<BytesNeeded> BytesFor(const PushRequest& request);
  // Of its device, besides memory that it has, or that staging will give it.
  uint64_t BytesOfNewValue(const Tensor& tensor) const;
  static uint64_t StateBytesOf(const Tensor& tensor, const UpdateRule& rule);

  // namespace_push.cc
  absl::Status CheckFields(const PushRequest& request) const;
  // A push whose fields are right and that need not be held.
  void PushNow(PushRequest request, const CallContext& context,
               std::vector<PullEntry>* names, ReplyCallback<PushReply> done);
  absl::Status HoldContributions(Admission& admission);
  // What a push must reserve for the tensor: nothing where its memory is
  // counted already or not there yet.
  uint64_t BytesToHold(const Tensor& tensor) const;
  // The same for all tensors of a push.
  uint64_t BytesToHold(const PushRequest& request) const;
  // What copies of the tensors take where their keys are: nothing on the host.
  BytesByDevice BytesOfCopies(const PushRequest& request,
                              const GroupedEntries& entries) const;
  // Copies the tensors of a push to the devices of its keys, unless these are
  // on the host, and makes it take effect.
  absl::Status MoveAndAdmit(Admission& admission);
  // Checks a push, then copies its tensors.
  absl::Status CopyToDevices(Admission& admission);
  // What the reply will take of the budget, beyond what the push holds now.
  static uint64_t BytesForReply(const Admission& admission,
                                const GroupedEntries& entries);
  absl::Status MakeCopies(Admission& admission);
  // Whether a push can be admitted, but for the budget.
  absl::StatusOr<GroupedEntries> Check(const Admission& admission)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks a push and makes it take effect; fills admission.work. False, and
  // nothing has happened, if a copy is not where its key is any more.
  absl::StatusOr<bool> Admit(Admission& admission)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether each copy is on the device of its key.
  bool AreAtTheirKeys(const Admission& admission,
                      const GroupedEntries& entries) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts the copies in the places of their tensors.
  static void TakeCopies(Admission& admission);
  absl::StatusOr<GroupedEntries> GroupByKey(const PushRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets StoredKey::position_in_call of the keys; the caller resets them.
  absl::Status AddEntries(const PushRequest& request, GroupedEntries& entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FindKeys(absl::Span<const PushEntry> from,
                        GroupedEntries& entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status CheckEntry(const StoredKey& key, const PushEntry& entry);
  // Admits what the entries of one key bring, from its `first` on.
  void AdmitKey(const GroupedEntries& entries, uint32_t first,
                Admission& admission) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for an idle key where contributions do not wait: what most pushes
  // of many keys are, without the detour of a PendingUpdate.
  void UpdateIdleKey(const GroupedEntries& entries, uint32_t first,
                     Admission& admission)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Contribution TakeContribution(const GroupedEntries& entries, uint32_t first,
                                Admission& admission)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is known when the push is admitted.
  PushResult ResultOf(const StoredKey& key, const PushRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds an update to `updates`, or to its key's queue if another one runs.
  void Enqueue(StoredKey& key, PendingUpdate update, UpdatePass& updates,
               Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Enqueues what the closed rounds of a key become, and has the sums scaled
  // that need it.
  void EnqueueRounds(StoredKey& key, PendingUpdates updates, Work& work,
                     Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs the work here if it is little, else on the pool.
  void Run(Work work);
  void RunHere(Work work);
  // Runs the updates, and leaves what was pushed meanwhile to the pool: no
  // caller works for others without end.
  void RunUpdates(UpdatePass updates);
  // Runs the next update of each key. REQUIRES: is_updating was left set.
  void RunPending(std::vector<KeyPtr> keys);
  // Ends a pass; returns the keys that have more to run.
  std::vector<KeyPtr> EndPass(UpdatePass& pass, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndUpdate(const UpdatePass& pass, const UpdatePass::Item& item,
                 const absl::Status& status, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRound(const UpdatePass::Item& item, const absl::Status& status,
                Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the step of `request` is one of a worker of the group.
  bool CountsStep(const PushRequest& request) const;
  void NoteStep(const PushRequest& request, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a contribution that was refused with `status`.
  void CountRefusal(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails the rounds of `key` from `step` on, which their contributors then
  // owe. The caller wakes who waits for them.
  void FailRounds(StoredKey& key, Step step, const RoundFailurePtr& failure,
                  Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps busy_keys_ after a change of the key's rounds.
  void NoteRounds(StoredKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // namespace_folds.cc
  void BeginFold(StoredKey& key, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunFold(FoldOfKey job);
  // The job's round cannot be summed.
  void FailFold(const FoldOfKey& job, const absl::Status& status,
                Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Contribution> SumOf(const FoldOfKey& job);
  // Multiplies a sum.
  absl::Status Scale(const FoldOfKey& job, Contribution& sum);

  // namespace_pull.cc
  absl::Status CheckPull(const PullRequest& request) const;
  // Ends the waiting pulls of workers who had contributed to rounds that are
  // gone, each with the status of its key.
  void EndPullsOfRounds(
      const RoundsOfKeys& ended,
      absl::FunctionRef<absl::Status(absl::string_view)> status_of,
      Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Copies the values of `reply`, which are on `devices` by entry, to the host,
  // if they are not there and no more than `max_bytes`, then calls `done`,
  // maybe on another thread; this may be gone by then.
  void SendFromDevices(PullReply reply, absl::Span<const DeviceIndex> devices,
                       uint64_t max_bytes, ReplyCallback<PullReply> done);
  // The same values with memory on the host, which is counted as values, but
  // without elements yet.
  absl::StatusOr<PullReply> AllocateOnHost(const PullReply& reply) const;

  // namespace_waits.cc
  // Lets the call end now, or parks it and listens for its cancellation.
  void Start(const WaitingCallPtr& call);
  // The same with the mutex held: whether the call waits.
  bool EndOrPark(const WaitingCallPtr& call, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: ResourceExhausted (no room for what the call keeps) · no_waits_.
  absl::Status Park(const WaitingCallPtr& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call; its answer is there.
  void Finish(const WaitingCallPtr& call, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks again at the calls that are parked at `topic`, or at all.
  void Wake(absl::string_view topic, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll(Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends those of the parked calls that `must_end` names with `status`.
  void FailWaits(absl::FunctionRef<bool(const WaitingCall&)> must_end,
                 const absl::Status& status, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWait(const WaitingCallPtr& call, absl::StatusCode code);
  void Send(Replies replies);
  // Tells the observer.
  void Report(const Replies& replies) const;

  // namespace_members.cc
  // Has the alarms call EndLeases when the next lease may have ended.
  void WatchLeases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLeases();
  static WorkerGroupOptions GroupOptionsOf(
      const NamespaceConfig& config, const NamespaceEnvironment& environment);
  absl::StatusOr<JoinReply> Admit(const JoinRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `worker` may call; if so, renews its lease.
  absl::Status Admit(const std::optional<Worker>& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The step that all must have reached before a worker of step `step` may go
  // on, if they have not; else 0.
  Step AwaitedStep(Step step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DescribeAwaited(Step step) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why a wait for workers has ended.
  absl::Status WaitingForRanks(absl::string_view subject,
                               absl::Span<const uint32_t> ranks) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Who does not wait at a barrier, among those whom it needs; `arrived` does.
  std::vector<uint32_t> MissingAt(absl::string_view topic,
                                  std::optional<uint32_t> arrived) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a barrier if nobody is missing.
  void EndBarrier(absl::string_view topic, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What must happen when the leases of workers have ended; `ranks` rise.
  void Lose(absl::Span<const uint32_t> ranks, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RoundFailurePtr LossOf(absl::Span<const uint32_t> ranks) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes rounds and barriers that only waited for those who are gone, and
  // looks at every waiting call.
  void GoOnWithout(absl::Span<const uint32_t> ranks, Work& work,
                   Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the alarms end the grace time of rounds.
  void WatchGrace(std::vector<OpenedRound> opened);
  void EndGrace(uint64_t id);
  // Whether the round waits yet; its key may be gone.
  Rounds* FindOpen(const OpenedRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets grace times of which all rounds are over, whenever there are twice
  // as many as after the last time.
  void SweepGraces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendLater(Replies replies);
  void RunLater(Work work);
  // Has the pool run `task`, unless the store has ended: then nobody can see
  // what it would do.
  bool Submit(TaskPool::Task&& task);
  // Reserves and makes place for the member of that rank.
  absl::Status MakePlace(uint32_t rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // namespace_held_push.cc
  // Whether the worker would run too far ahead of the others; not if the push
  // will be refused anyway.
  bool MustHold(const PushRequest& request);
  void Hold(PushRequest request, const CallContext& context,
            std::vector<PullEntry>* names, ReplyCallback<PushReply> done);

  // namespace_rules.cc
  // For a key that nobody else knows, or with rules_mutex_: nothing else
  // changes a key's rule or which tensors its state has.
  absl::StatusOr<RefPtr<RuleState>> MakeState(const StoredKey& key,
                                              const UpdateRule& rule);
  absl::StatusOr<RefPtr<Buffer>> AllocateState(const StoredKey& key,
                                               DType dtype);
  std::shared_ptr<const RuleBindings> bindings() const;
  // Binds `rule` to `pattern`, and to the keys that follow from it. Null
  // unbinds the pattern, which has a rule: its keys fall to those that govern
  // them next.
  absl::Status Bind(absl::string_view pattern, SharedRule rule)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(rules_mutex_);
  // The same of multipliers; null unbinds the pattern's.
  absl::Status BindMultipliers(absl::string_view pattern,
                               SharedMultipliers multipliers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(rules_mutex_);
  // One turn of keys, those with names after `last`.
  std::vector<KeyPtr> KeysAfter(const std::string& last) const;
  // Makes the new states of all keys that the change is for.
  absl::Status PrepareKeys(RuleChange& change);
  // The same for those that have come since; then new keys have the rules of
  // the change.
  absl::Status PrepareNewKeys(RuleChange& change);
  // Makes the states of those keys that the change is for and that have none
  // yet.
  absl::Status AddStates(absl::Span<const KeyPtr> keys, RuleChange& change);
  static void SetRuleOf(StoredKey& key, const SharedRule& rule,
                        RefPtr<RuleState>& state);
  // But for the rules, which are copied without the mutex: WithRules.
  std::pair<KeyStatus, SharedRule> StatusOf(const StoredKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::vector<KeyStatus> WithRules(
      std::vector<std::pair<KeyStatus, SharedRule>> statuses);
  absl::Status AddDigests(absl::Span<KeyStatus> keys);

  Backend& DeviceOf(const StoredKey& key) const {
    return (*environment_.devices)[key.device];
  }

  // What is there to count.
  NamespaceStatus Numbers(const WaitStatus& attempts) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoSuchKey(absl::string_view key) const;
  absl::Status CheckNumEntries(size_t num_entries) const;
  // Whether the call has been made, or is being made, as far as one knows
  // before its turn. Errors: those of CallWindow::Knows.
  absl::StatusOr<bool> IsRepeat(const Caller& caller,
                                const std::optional<CallId>& call_id) const;

  const std::string name_;
  const uint64_t uid_;
  const NamespaceConfig config_;
  const WorkerGroupPtr workers_ ABSL_PT_GUARDED_BY(mutex_);
  const NamespaceEnvironment environment_;
  const bool is_on_host_;
  const NamespaceMemory memory_;
  // What it keeps is counted by memory_.
  const std::unique_ptr<PushMode> mode_;
  const std::shared_ptr<CallWindow> calls_;

  // Held by who changes rules, while memory is allocated.
  Mutex rules_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  mutable Mutex mutex_;
  KeyTable keys_ ABSL_GUARDED_BY(mutex_);
  // Replaced as a whole, so that it can be read without the mutex.
  std::shared_ptr<const RuleBindings> bindings_ ABSL_GUARDED_BY(mutex_);
  // While rules change: the keys that have come since that began.
  std::optional<std::vector<KeyPtr>> keys_made_ ABSL_GUARDED_BY(mutex_);
  Waits waits_ ABSL_GUARDED_BY(mutex_);
  KeyWatches watches_ ABSL_GUARDED_BY(mutex_);
  // Not OK: no call waits any more.
  absl::Status no_waits_ ABSL_GUARDED_BY(mutex_);
  // Those that have open rounds, or rounds that workers owe.
  absl::flat_hash_set<StoredKey*> busy_keys_ ABSL_GUARDED_BY(mutex_);
  // Rises with every change of keys, values and rules.
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  // No key that was deleted has had a version above.
  Version version_floor_ ABSL_GUARDED_BY(mutex_) = 0;
  // Rounds whose grace time has begun, by push.
  std::map<uint64_t, Grace> graces_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_grace_id_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t graces_to_sweep_ ABSL_GUARDED_BY(mutex_) = kMinGracesToSweep;
  // For what workers_ keeps.
  Reservation worker_overhead_ ABSL_GUARDED_BY(mutex_);
  // 0 while nothing is scheduled.
  Alarms::Id lease_alarm_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration lease_alarm_time_ ABSL_GUARDED_BY(mutex_) =
      absl::InfiniteDuration();
  uint64_t updates_applied_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_open_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_closed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Contributions that were refused.
  uint64_t contributions_late_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t contributions_duplicate_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t contributions_fenced_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_H_
