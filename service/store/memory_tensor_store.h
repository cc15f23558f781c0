// The store: tensors in the memory of a device, in namespaces.

#ifndef TENSORKV_SERVICE_STORE_MEMORY_TENSOR_STORE_H_
#define TENSORKV_SERVICE_STORE_MEMORY_TENSOR_STORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "service/store/call_window.h"
#include "service/store/key_fence.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/memory_budgets.h"
#include "service/store/memory_tensor_store_options.h"
#include "service/store/namespace_summary.h"
#include "service/store/partition_moves.h"
#include "service/store/recent_deletes.h"
#include "service/store/snapshot.h"
#include "service/store/snapshot_shares.h"
#include "service/store/staging.h"
#include "service/store/store_observer.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// A store in the memory of this process and its device. Has the namespace
// "default" (async, assign) from the start. Thread-safe.
class MemoryTensorStore final : public TensorStore,
                                public NamespaceAdmin,
                                public Staging,
                                public NamespaceSummaries,
                                public Snapshots,
                                public PartitionMoves {
 public:
  // `device` and `alarms` outlive the store and every tensor pulled from it.
  // REQUIRES: a device other than the host has a budget.
  MemoryTensorStore(const MemoryTensorStoreOptions& options, Backend* device,
                    Alarms* alarms);
  // Calls Stop.
  ~MemoryTensorStore() override { Stop(); }

  void Init(InitRequest request, CallContext context,
            ReplyCallback<InitReply> done) override;
  void Push(PushRequest request, CallContext context,
            ReplyCallback<PushReply> done) override;
  void Pull(PullRequest request, CallContext context,
            ReplyCallback<PullReply> done) override;
  void PushPull(PushPullRequest request, CallContext context,
                ReplyCallback<PullReply> done) override;
  void SetState(SetStateRequest request, CallContext context,
                ReplyCallback<SetStateReply> done) override;
  void GetState(GetStateRequest request, CallContext context,
                ReplyCallback<GetStateReply> done) override;
  void Delete(DeleteRequest request, CallContext context,
              ReplyCallback<DeleteReply> done) override;
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallContext& context = {}) override;
  void Stat(StatRequest request, CallContext context,
            ReplyCallback<StatReply> done) override;

  absl::Status CheckInit(const InitRequest& request,
                         const CallContext& context = {}) override;
  absl::Status CheckPush(const PushRequest& request,
                         const CallContext& context = {}) override;
  absl::Status CheckSetState(const SetStateRequest& request,
                             const CallContext& context = {}) override;
  absl::Status Allocate(absl::string_view name_space,
                        absl::Span<Tensor* const> tensors,
                        const CallContext& context = {}) override;
  bool ReadsInPlace(absl::string_view name_space) override;

  absl::StatusOr<DescribeNamespaceReply> DescribeNamespace(
      const DescribeNamespaceRequest& request,
      const CallContext& context = {}) override;
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      absl::string_view after, size_t max_namespaces, Shows shows,
      const CallContext& context = {}) override;
#define TENSORKV_VERB(name, ...)                        \
  void name(name##Request request, CallContext context, \
            ReplyCallback<name##Reply> done) override;
  TENSORKV_ADMIN_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB
  void Barrier(BarrierRequest request, CallContext context,
               ReplyCallback<BarrierReply> done) override;

  std::vector<NamespaceSummary> Summaries() const override;
  absl::StatusOr<std::vector<OpenRound>> OpenRounds(
      absl::string_view name_space) const override;

  absl::Status TakeSnapshot(const std::vector<std::string>& namespaces,
                            SnapshotSink& sink) override;
  std::unique_ptr<Restoration> StartRestoration(
      OnExisting on_existing) override;

  absl::Status TakeChanges(const PartitionSet& partitions,
                           SnapshotSink& sink) override;
  absl::Status Fence(const PartitionSet& partitions,
                     absl::FunctionRef<absl::Status()> may_wait) override;
  absl::Status TakeSnapshotOfFenced(SnapshotSink& sink) override;
  void FenceReads() override;
  void Unfence() override;
  void GiveAway() override;
  std::unique_ptr<Restoration> StartAdoption(
      const PartitionSet& partitions) override;
  std::unique_ptr<Restoration> StartTakeover(
      const PartitionSet& partitions) override;
  void Own(const PartitionSet& partitions) override;
  void Discard(const PartitionSet& partitions) override;

  // Returns its shares of snapshots; the store outlives them.
  std::unique_ptr<SnapshotShares> OpenShares() const;

  // Returns whether `caller` has made that call in that namespace, or is making
  // it, so that its repeat has an answer.
  bool Knows(absl::string_view name_space, const Caller& caller,
             const CallId& id) const;

  // Gives the namespace "default" that uid, which it has at all servers of a
  // cluster: it becomes another one, unless it has keys or was restored.
  void NameDefault(uint64_t uid);

  // Returns whether every server holds the keys of the namespace; nothing if
  // there is no such namespace.
  std::optional<bool> IsMirrored(absl::string_view name_space) const;

  // Ends every waiting call with Unavailable; calls that would wait from now
  // on end so too. For shutdown.
  void CancelWaits();
  // Cancels waits, and blocks until what was acknowledged is done and nothing
  // of any call runs or is kept: whoever made calls may go. From then on only
  // what changes nothing may be asked. REQUIRES: no call that changes something
  // is under way on another thread.
  void Stop();
  // Ends waiting calls as CancelWaits does, with `status`: a device has failed.
  void EndWaits(const absl::Status& status);
  // Ends with `status` the calls that wait now; later ones may wait.
  void InterruptWaits(const absl::Status& status);

  const ServerBudgets& budgets() const { return budgets_; }
  // Returns how many deltas were encoded.
  uint64_t num_deltas_encoded() const;
  // Returns how much of the host's memory is used.
  uint64_t used_bytes() const { return budgets_.host()->used_bytes(); }

 private:
  class StoreRestoration;
  class StoreAdoption;
  class OutgoingMove;
  class StoreTakeover;
  class StoreShares;
  using NamespacePtr = std::shared_ptr<Namespace>;
  using Namespaces = std::map<std::string, NamespacePtr, std::less<>>;

  // Creates the namespace; `on_existing` is that of the request.
  absl::StatusOr<CreateNamespaceReply> MakeNamespace(
      const std::string& name, uint64_t uid, const NamespaceConfig& config,
      OnExisting on_existing);
  // Returns a namespace "default"; a `uid` of 0 stands for a new one.
  NamespacePtr MakeDefault(uint64_t uid) const;
  // Adds `created`, unless an existing namespace will do; one with another uid
  // than `uid` will not, unless that is 0. Returns the one that is there then.
  absl::StatusOr<NamespacePtr> Insert(const std::string& name, uint64_t uid,
                                      OnExisting on_existing,
                                      const NamespacePtr& created)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the namespace that the request names, and ends what waits there.
  absl::Status Remove(const DeleteNamespaceRequest& request);
  // Returns some of those after `name`, in their order: all of them at once
  // would hold up all calls, which find theirs by the same mutex.
  std::vector<std::pair<std::string, NamespacePtr>> NamespacesAfter(
      absl::string_view name) const;
  static absl::Status ExistsAlready(absl::string_view name_space);
  // Checks that the server may have `size` namespaces.
  absl::Status CheckNumNamespaces(size_t size) const;
  absl::Status CheckRestorable(absl::string_view name_space,
                               OnExisting on_existing) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds all of `restored`, or none; swaps those that are replaced into it.
  absl::Status Exchange(Namespaces& restored, OnExisting on_existing);
  // Returns `context` with a timeout of at most the store's max_wait.
  CallContext WithinMaxWait(CallContext context) const;
  // Tells the observer, if there is one.
  void Report(StoreEvent event, absl::string_view name_space,
              absl::string_view detail) const;
  // Returns the namespace of that name, and of that uid unless it is 0. Errors:
  // NotFound · FailedPrecondition (another uid).
  absl::StatusOr<NamespacePtr> Find(absl::string_view name_space,
                                    uint64_t uid = 0) const;
  // Returns the namespace that the request names. Errors: those of Find, or the
  // error of a caller that knows another incarnation.
  template <typename Request>
  absl::StatusOr<NamespacePtr> FindFor(const Caller& caller,
                                       const Request& request) const;
  // Finds the namespace, and makes the call there once, by
  // `verb(namespace, request, context, done)`.
  template <typename Request, typename Verb>
  void MakeInNamespace(Request request, CallContext context,
                       ReplyCallback<ReplyTo<Request>> done, Verb verb);
  std::vector<NamespacePtr> All() const;
  std::vector<std::string> Names() const;
  // Returns the namespace with the name of the snapshot, or one made from it.
  absl::StatusOr<NamespacePtr> FindOrRestore(
      const NamespaceSnapshot& name_space);
  // Makes one from the snapshot, unless the name is taken; "default" is not as
  // long as it has no keys.
  absl::Status RestoreIfAbsent(const NamespaceSnapshot& name_space);

  // Returns what RecentDeletes::MayBeDeletedSince returns.
  bool MayBeDeletedSince(absl::string_view name_space,
                         absl::Duration since) const;
  // Removes, in all namespaces but mirrored ones, the keys that are `chosen`.
  void DropKeys(
      absl::FunctionRef<bool(absl::string_view, absl::string_view)> chosen);

  const ServerBudgets budgets_;
  const std::shared_ptr<TaskRunner> pool_;
  const std::shared_ptr<DeltaQueue> deltas_;
  std::atomic<uint64_t> last_epoch_ = 0;
  KeyFence fence_;
  // Null while no move has passed keys on. Confined to the thread of the move.
  std::shared_ptr<OutgoingMove> move_;
  const NamespaceEnvironment environment_;
  const uint32_t max_namespaces_;
  // The answers to calls that are about namespaces.
  const std::shared_ptr<CallWindow> calls_;
  // The uid of the namespace "default" with which the store has begun.
  uint64_t own_default_uid_ = 0;

  mutable Mutex mutex_;
  Namespaces namespaces_ ABSL_GUARDED_BY(mutex_);
  // Also names that were to be deleted here, and are elsewhere.
  RecentDeletes deleted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_MEMORY_TENSOR_STORE_H_
