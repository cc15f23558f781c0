// One namespace: its keys, rules, members' rounds, waiting calls and budget.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/alarms.h"
#include "base/task_pool.h"
#include "service/store/call_window.h"
#include "service/store/device_work.h"
#include "service/store/key_fence.h"
#include "service/store/memory_budgets.h"
#include "service/store/namespace_summary.h"
#include "service/store/snapshot.h"
#include "service/store/store_observer.h"
#include "service/store/tensor_store.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

class DeltaQueue;
class RoundExchange;
struct NamespaceState;

// NamespaceEnvironment holds what namespaces share, and what outlives them all.
struct NamespaceEnvironment {
  // Keeps the tensors.
  Backend* device = nullptr;
  // Counts what the device or the pool does and nobody waits for: the store
  // does not end before it.
  std::shared_ptr<WorkUnderWay> work_under_way;
  Alarms* alarms = nullptr;
  // Runs what takes long, by namespace.
  std::shared_ptr<TaskRunner> pool;
  // Encodes what has changed, for readers.
  std::shared_ptr<DeltaQueue> deltas;
  const ServerBudgets* budgets = nullptr;
  // The last epoch that the server has given, by its clock.
  std::atomic<uint64_t>* last_epoch = nullptr;
  // Says which keys take calls.
  KeyFence* fence = nullptr;
  // Hears what happens; may be null.
  StoreObserver* observer = nullptr;
  // Makes sums with other servers; null: there are none.
  RoundExchange* exchange = nullptr;
  absl::Duration max_wait;
  absl::Duration min_lease;
  absl::Duration max_lease;
  uint32_t max_entries = 0;
};

// Returns the error of a call for another namespace of that name than the one
// that is there: FailedPrecondition (NAMESPACE_REPLACED).
absl::Status WasReplaced(absl::string_view name_space, uint64_t expected,
                         uint64_t actual);

// Thread-safe. Verbs as in TensorStore, for requests whose name_space is this
// one, but for call_id: once_calls.h makes a call once, with calls().
//
// This is the way in. Each verb is a file of its own, which changes the
// NamespaceState by a Transaction.
class Namespace {
 public:
  // Creates a namespace without keys; a `uid` of 0 stands for a new one.
  // Errors: those of CreateNamespace.
  static absl::StatusOr<std::shared_ptr<Namespace>> Create(
      const std::string& name, NamespaceConfig config,
      const NamespaceEnvironment& environment, uint64_t uid = 0);
  // Returns one that was saved, without its keys. Its budget is lifted. Errors:
  // those of CreateNamespace.
  static absl::StatusOr<std::shared_ptr<Namespace>> Restore(
      const NamespaceSnapshot& snapshot,
      const NamespaceEnvironment& environment);
  // Have the namespace take as much as the server has, or as its budget says:
  // what was saved of one may be more than a budget that was lowered since.
  void LiftBudget();
  void EndLiftOfBudget();
  // Adds keys as Restoration::Add says. `have_arrived` says that they are of
  // partitions that the fence keeps calls out of.
  absl::Status RestoreKeys(std::vector<KeySnapshot> keys,
                           bool have_arrived = false);
  // Allocates a tensor as Restoration::Allocate says.
  absl::StatusOr<Tensor> AllocateToRestore(DType dtype,
                                           const Shape& shape) const;
  // Passes this namespace to `sink` as Snapshots::TakeSnapshot says. Blocks
  // until `sink` has all.
  absl::Status TakeSnapshot(SnapshotSink& sink);

  // The next ones fence and move keys as PartitionMoves says. Fences the keys
  // of the fence's partitions, but for contributions up to the last step of
  // which any of them has a round open.
  void FenceKeys();
  // Fences them for all steps, and returns true, unless a round of theirs is
  // open or must be pushed again.
  bool FenceKeysIfIdle();
  // Ends the waiting calls that the fence keeps out after its FenceReads.
  void WakeForFence();
  // Passes the keys that `partitions` fences to `sink` as
  // PartitionMoves::TakeChanges does, until EndMove those alone that have
  // changed since the time before. `sink` has all when this returns.
  absl::Status TakeChanges(std::shared_ptr<const KeyFence::View> partitions,
                           SnapshotSink& sink);
  // Takes what has changed since then as PartitionMoves does. Errors: also
  // Unavailable, if a round has failed since FenceKeysIfIdle.
  absl::Status TakeSnapshotOfFenced(SnapshotSink& sink);
  // Ends the stage of the move. Unless the receiver has all of it, the next one
  // sends all keys.
  void EndStage(bool is_sent);
  // Has the next move send all keys.
  void EndMove();
  // Removes the keys whose names are `chosen`, as if they had never been: no
  // call that waits, nor the observer, hears of it. Locks the mutex many times.
  void DropKeys(absl::FunctionRef<bool(absl::string_view key)> chosen);
  // Removes the keys of these names that are there, in the same way.
  void DropKeys(absl::Span<const std::string> names);
  // Has watches begin anew: the server owns other keys by now.
  void BreakWatches();
  // Gets ready for keys of this namespace that come from another server. If
  // there are none here, takes its rules over from `snapshot`. Errors: as of
  // PartitionMoves::StartAdoption.
  absl::Status BeginAdoption(const NamespaceSnapshot& snapshot);
  // Lets go of all that this server has named, or reserved, as the home.
  void CloseSeries();
  // Has series go on above the numbers that `snapshot` has of them. Errors:
  // ResourceExhausted.
  absl::Status RestoreSeries(const NamespaceSnapshot& snapshot);
  // Takes versions and the steps of the group over from `snapshot`, as the keys
  // of that server are all here. If contributions to `first_unsaved` and later
  // steps are to be made again, members are lost. The group is that of
  // `snapshot`, if no call has found a key here and no worker has come.
  void Adopt(const NamespaceSnapshot& snapshot, Step first_unsaved);
  // Has versions, and the group, go on as PartitionMoves::StartTakeover says,
  // after keys of a lost server have come from its checkpoint. `had_keys` says
  // whether there were keys here before, `has_come` whether any have come.
  void TakeOver(const NamespaceSnapshot& snapshot, bool had_keys,
                bool has_come);
  // Has versions and revisions go on above all that another server, or another
  // namespace of this name, may have given until now, also to keys that no
  // checkpoint has.
  void PassOverVersions();
  bool HasKeys() const;
  // Checks that `snapshot` is of this namespace, with its configuration, but
  // for the budget. Errors: FailedPrecondition (EXISTS_DIFFERENTLY) ·
  // InvalidArgument: its group cannot have such workers.
  absl::Status CheckIsSame(const NamespaceSnapshot& snapshot) const;

  void Init(InitRequest request, CallContext context,
            ReplyCallback<InitReply> done);
  void Push(PushRequest request, CallContext context,
            ReplyCallback<PushReply> done);
  // Returns a callback that gives the results of `request` their tokens, and
  // then calls `done` with them.
  ReplyCallback<PushReply> WithTokens(const PushRequest& request,
                                      ReplyCallback<PushReply> done) const;
  // Makes the first half of a PushPull. `pull` is the second, whose reply
  // counts too: it takes the names of the entries once the push is in.
  void Push(PushRequest request, CallContext context, PullRequest* pull,
            ReplyCallback<PushReply> done);
  void Pull(PullRequest request, CallContext context,
            ReplyCallback<PullReply> done);
  // Makes the second half of a PushPull: of the rounds that its worker has part
  // in, those up to `step` are waited for, and those up to it may have to be
  // pushed again.
  void PullOfPush(PullRequest request, Step step, CallContext context,
                  ReplyCallback<PullReply> done);
  void SetState(SetStateRequest request, CallContext context,
                ReplyCallback<SetStateReply> done);
  void GetState(GetStateRequest request, const CallContext& context,
                ReplyCallback<GetStateReply> done);
  void Delete(DeleteRequest request, CallContext context,
              ReplyCallback<DeleteReply> done);
  absl::StatusOr<ListReply> List(const ListRequest& request) const;
  void Stat(StatRequest request, CallContext context,
            ReplyCallback<StatReply> done);

  // Do what NamespaceAdmin says.
#define TENSORKV_VERB(name, ...)                        \
  void name(name##Request request, CallContext context, \
            ReplyCallback<name##Reply> done);
  TENSORKV_NAMESPACE_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB
  void Barrier(BarrierRequest request, CallContext context,
               ReplyCallback<BarrierReply> done);

  // Do what SnapshotShares says.
  std::vector<v1::CheckSharesRequest> SharesToCheck() const;
  v1::CheckSharesResponse CheckShares(
      const v1::CheckSharesRequest& request) const;
  void DropShares(const v1::CheckSharesResponse& unknown);
  std::vector<v1::FindSharesRequest> SharesToFind() const;
  v1::FindSharesResponse FindShares(const v1::FindSharesRequest& request) const;
  void CloseLost(const v1::FindSharesResponse& missing);

  // Do what Staging says.
  absl::Status CheckInit(const InitRequest& request,
                         const Caller& caller) const;
  absl::Status CheckPush(const PushRequest& request, const Caller& caller);
  absl::Status CheckSetState(const SetStateRequest& request,
                             const Caller& caller) const;
  absl::Status Allocate(absl::Span<Tensor* const> tensors) const;
  bool ReadsInPlace() const;

  // Returns the status that DescribeNamespace answers with.
  NamespaceStatus Describe() const;
  // Do what NamespaceSummaries says.
  NamespaceSummary Summarize() const;
  std::vector<OpenRound> OpenRounds() const;

  // Returns the window that remembers the calls made in this namespace.
  CallWindow& calls();
  const Alarms& alarms() const;

  // Returns what tells this namespace from others of its name: random, never 0.
  uint64_t uid() const;
  // Returns the configuration with every default filled in, and the rule that
  // the namespace was created with.
  NamespaceConfig config() const;
  // Returns whether every server holds its keys.
  bool is_mirrored() const;

  // Ends all waiting calls with `status`; calls that would wait later end with
  // it too.
  void EndWaits(const absl::Status& status);
  // Ends with `status` the calls that wait now; later ones may wait.
  void InterruptWaits(const absl::Status& status);
  // Ends waits as EndWaits does when the store has the namespace no more. From
  // then on, calls that would change it fail with `status`.
  void End(const absl::Status& status);

 private:
  explicit Namespace(std::shared_ptr<NamespaceState> state)
      : state_(std::move(state)) {}

  // Binds the rules and multipliers that were saved.
  absl::Status BindRules(const NamespaceSnapshot& snapshot);

  const std::shared_ptr<NamespaceState> state_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_H_
