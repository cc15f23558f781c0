// Several servers as one store.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/begun_joins.h"
#include "client/cluster/call_progress.h"
#include "client/cluster/call_shares.h"
#include "client/cluster/cluster_servers.h"
#include "client/cluster/cluster_snapshots.h"
#include "client/cluster/known_namespaces.h"
#include "client/cluster/split_layout.h"
#include "client/cluster/waits.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Makes calls at the servers of a cluster that they concern. Thread-safe.
//
// A call that names keys goes, in shares, to those that own them, at the same
// time; each share is all or nothing, the whole is not. A share that is refused
// because another server owns its keys has had no effect: it is cut anew by the
// newest placement and made there. Namespaces, rules, workers and checkpoints
// are on every server, and calls about them go to all, the namespace's home
// first; those that failed at some may be made again. docs/cluster.md says what
// that means for each verb.
//
// Uids, ranks and epochs are those that the home has given, on every server;
// so are the numbers of snapshots. A call about keys says which namespace it is
// for, by the uid of the one that is known: servers refuse it before any effect
// where another one has the name.
//
// Errors: of those that servers give, the one that MostActionableError chooses;
// Unavailable names the server. In MODE_ASYNC a push of which a share has, or
// may have, been applied, does not fail in a way that lets workers push it
// again: it fails with FailedPrecondition (OUTCOME_UNKNOWN) then. Unavailable
// too where no server tells who owns what. They name keys, not slices.
class ClusterConnection final : public TaskConnection {
 public:
  explicit ClusterConnection(ClusterServersOptions options)
      : servers_(std::move(options)) {}

 private:
  // Bounds how often a call is routed again where nobody tells of a newer
  // placement. Servers may learn of one one after the other.
  static constexpr int kMostAttempts = 4;

  template <typename Request>
  using Progress = CallProgress<Request>;
  template <typename Reply>
  using Replies = std::vector<absl::StatusOr<Reply>>;

  // Makes the call. Work that has to block runs on threads of the cluster's
  // own: a share may wait for another client, so none waits for a thread.
  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;
  template <typename Request>
  Task<absl::Status> MakeAs(const Request& request, ReplyTo<Request>& reply,
                            const CallLimit& limit);
  // Makes a call that reads a snapshot, once it is known which one.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> RouteToSnapshot(
      const Request& request, const CallLimit& limit);
  // Returns the answer of each of the servers, or the MostActionableError.
  template <typename Request>
  Task<absl::StatusOr<std::vector<ReplyTo<Request>>>> AskEach(
      absl::Span<const std::string> servers, const Request& request,
      const CallLimit& limit) {
    auto replies = co_await servers_.AtEach(servers, request, limit);
    co_return AllOf(std::move(replies));
  }

  // Calls about keys. Route makes one at the servers that it concerns.
  template <typename Request>
  requires kNamesKeys<Request> Task<absl::StatusOr<ReplyTo<Request>>> Route(
      const Request& request, const CallLimit& limit);
  // Makes a call whose keys exist, or are waited for. Reads newer layouts, and
  // makes the call again, where it does not find a key.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeOfKeys(
      const Request& request, const ClusterPlacement& placement,
      const CallLimit& limit);
  // Makes a call with the keys of `layouts`, which may be null, in slices, and
  // the others whole, for the namespace that has the name.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeBy(const SplitLayouts* layouts,
                                                const Request& request,
                                                const CallLimit& limit);
  // Makes the call at the owners of its keys, of a namespace that is `known`
  // not to be mirrored. Shares that servers refuse since another namespace has
  // the name are made again for that one. Errors: FailedPrecondition
  // (NAMESPACE_REPLACED), where that one is mirrored. Tells `published_by`, if
  // it is not null, which servers have taken shares of a snapshot.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakePlaced(
      const SplitLayouts* layouts, const Request& request, KnownNamespace known,
      const CallLimit& limit, std::set<std::string>* published_by = nullptr);
  // Makes a call, and takes a snapshot of it. Errors: also those of RESERVE,
  // and FailedPrecondition (OUTCOME_UNKNOWN) once the call is made.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Publish(const SplitLayouts* layouts,
                                                 const Request& request,
                                                 const KnownNamespace& known,
                                                 const CallLimit& limit);
  // Makes a call about keys of a mirrored namespace: an Init, a SetState or a
  // Delete at all servers, any other call at one.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeMirrored(
      const SplitLayouts* layouts, const Request& request, KnownNamespace known,
      const CallLimit& limit);
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeMirroredPieces(
      const Request& request, KnownNamespace known, const CallLimit& limit);
  // Asks a server which namespace has that name. A caller who may not know it
  // is told of one without uid that is not mirrored. Errors: NotFound.
  Task<absl::StatusOr<KnownNamespace>> AskAt(const std::string& server,
                                             const std::string& name_space,
                                             const CallLimit& limit);
  // Returns which namespace is known by that name, and has that uid unless it
  // is 0; asks the server where none is. It is one without uid where the server
  // has none: the call that follows tells best what is wrong.
  Task<absl::StatusOr<KnownNamespace>> KnowAt(const std::string& server,
                                              const std::string& name_space,
                                              uint64_t uid,
                                              const CallLimit& limit);
  // Returns what KnowAt does for a call, at the owner of its first key.
  template <typename Request>
  Task<absl::StatusOr<KnownNamespace>> KnowFor(const Request& request,
                                               const CallLimit& limit);
  // Asks the server, which has refused a call for `known`, what there is by
  // now. Errors: NotFound · FailedPrecondition (NAMESPACE_REPLACED): the
  // namespace is of another kind (mirrored or not).
  Task<absl::Status> KnowAnew(const std::string& server,
                              const std::string& name_space,
                              const CallLimit& limit, KnownNamespace& known);
  // Makes the shares, each at its owner, at the same time.
  template <typename Request>
  Task<std::vector<absl::StatusOr<ReplyTo<Request>>>> MakeShares(
      const CallShares<Request>& call, absl::Span<const CallShare> shares,
      int attempt, const CallLimit& limit, Progress<Request>& progress);
  // Tells `progress` how the shares of an attempt have ended.
  template <typename Request>
  static void TakeAnswers(const CallShares<Request>& call,
                          absl::Span<const CallShare> shares,
                          Replies<ReplyTo<Request>> answers,
                          Progress<Request>& progress);
  // Makes one share, under a call_id of its own if it is not the first attempt.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeShare(
      const CallShares<Request>& call, const CallShare& share,
      const Progress<Request>& progress, int attempt, const CallLimit& limit);
  // Makes a call at a server for that namespace, unless it means another.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> CallFor(const KnownNamespace& known,
                                                 const std::string& server,
                                                 const Request& request,
                                                 const CallLimit& limit);
  Task<absl::StatusOr<ListReply>> Route(const ListRequest& request,
                                        const CallLimit& limit);
  // Lists keys, and slices, as the servers have them.
  Task<absl::StatusOr<ListReply>> ListStored(const ListRequest& request,
                                             const CallLimit& limit);
  // Lists what each server has of a namespace that is not mirrored. `known` is
  // a placement.
  Task<absl::StatusOr<ListReply>> ListPlaced(const ListRequest& request,
                                             const PlacementPtr& known,
                                             const CallLimit& limit);

  // Returns the statuses of those keys that have all their slices.
  Task<absl::StatusOr<StatReply>> StatThoseWhole(const SplitLayouts* layouts,
                                                 const StatRequest& request,
                                                 const CallLimit& limit);

  // These are about keys in slices. LayoutsFor returns the layouts by which a
  // call can be made; it reads them again where the call may be about a key
  // whose layout is not known. Refresh reads those of a namespace.
  template <typename Request>
  Task<absl::StatusOr<SplitLayoutsPtr>> LayoutsFor(
      const Request& request, const ClusterPlacement& placement,
      const CallLimit& limit);
  Task<absl::StatusOr<SplitLayoutsPtr>> Refresh(const std::string& name_space,
                                                const CallLimit& limit);
  // Returns whether a push may be to a key in slices that `layouts` lacks.
  bool MayBeUnknown(const PushRequest& request, const SplitLayouts& layouts,
                    const ClusterPlacement& placement) const;
  // Waits until all keys of a Stat exist, reading the layouts again and again.
  // Returns the last layouts. Errors: DeadlineExceeded · those of a call that
  // waits for a key, but that its time is over or a server does not answer.
  Task<absl::StatusOr<SplitLayoutsPtr>> AwaitKeys(const StatRequest& stat,
                                                  SplitLayoutsPtr layouts,
                                                  const CallLimit& limit);
  // Waits for a key, or a slice, of that name, for a second at most.
  Task<absl::Status> AwaitKey(const StatRequest& stat, const std::string& key,
                              const CallLimit& limit);
  // Creates keys, whole or in slices.
  Task<absl::StatusOr<InitReply>> CreateKeys(const InitRequest& request,
                                             const ClusterPlacement& placement,
                                             const CallLimit& limit);
  // Returns the layouts of the keys that are to be created in slices. Appends
  // to `removed` the slices that are to be replaced.
  Task<absl::StatusOr<SplitLayouts>> PlanCreation(
      const InitRequest& request, const ClusterPlacement& placement,
      const CallLimit& limit, std::vector<std::string>& removed);
  // Asks the servers, by a Stat, whether a key exists that is not in slices.
  Task<absl::StatusOr<bool>> QueryIsWhole(const std::string& name_space,
                                          const std::string& key,
                                          const CallLimit& limit);
  // Asks the servers, by a DescribeNamespace, whether new keys of the namespace
  // may be in slices: its gradient guard and its rules allow it.
  Task<absl::StatusOr<bool>> QueryAllowsSlices(const std::string& name_space,
                                               const CallLimit& limit);
  // Check, before any server gets the request, that no key in slices would get
  // a rule that needs whole keys, or a gradient guard. Not every server has a
  // slice to refuse it for. Errors: InvalidArgument.
  Task<absl::Status> CheckTakesRule(const SetRuleRequest& request,
                                    const CallLimit& limit);
  Task<absl::Status> CheckTakesGuard(const UpdateNamespaceRequest& request,
                                     const CallLimit& limit);

  // These are about snapshots, namespaces and rules, and what changes.
  Task<absl::StatusOr<CreateSnapshotReply>> Route(
      const CreateSnapshotRequest& request, const CallLimit& limit);
  template <typename Request>
  requires kIsOfSnapshots<Request> Task<absl::StatusOr<ReplyTo<Request>>> Route(
      const Request& request, const CallLimit& limit) {
    return snapshots_.Make(request, limit);
  }
  Task<absl::StatusOr<WatchReply>> Route(const WatchRequest& request,
                                         const CallLimit& limit);
  Task<absl::StatusOr<CreateNamespaceReply>> Route(
      const CreateNamespaceRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<DescribeNamespaceReply>> Route(
      const DescribeNamespaceRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<ListNamespacesReply>> Route(
      const ListNamespacesRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<DescribeStepsReply>> Route(
      const DescribeStepsRequest& request, const CallLimit& limit);
  // Creates at another server the namespace that the home has, whose uid the
  // request names. Removes an earlier one of that name, which a deletion has
  // left there, unless it has keys: its home may have lost it.
  Task<absl::StatusOr<CreateNamespaceReply>> CreateAt(
      const std::string& server, const CreateNamespaceRequest& request,
      const CallLimit& limit);
  // Returns how a call for the namespace of that uid has ended at a server.
  // Where the server has refused it for an earlier one, which a deletion has
  // left there, removes that one, and returns OK.
  Task<absl::Status> RemoveEarlier(const std::string& server,
                                   const std::string& name_space, uint64_t uid,
                                   const absl::Status& outcome,
                                   const CallLimit& limit);

  // These are about workers.
  Task<absl::StatusOr<JoinReply>> Route(const JoinRequest& request,
                                        const CallLimit& limit);
  // Joins at the first of the servers, the home, and then at the others with
  // the rank and the epoch that it gives, a namespace of that mode. Errors:
  // also FailedPrecondition (LEASE_LOST): another server has had a later epoch
  // of the worker.
  Task<absl::StatusOr<JoinReply>> JoinAll(
      const std::vector<std::string>& servers, const JoinRequest& request,
      Mode mode, const CallLimit& limit);
  Task<absl::StatusOr<KeepAliveReply>> Route(const KeepAliveRequest& request,
                                             const CallLimit& limit);
  Task<absl::StatusOr<LeaveReply>> Route(const LeaveRequest& request,
                                         const CallLimit& limit);
  Task<absl::StatusOr<BarrierReply>> Route(const BarrierRequest& request,
                                           const CallLimit& limit);

  // Checkpoints and servers.
  Task<absl::StatusOr<SaveCheckpointReply>> Route(
      const SaveCheckpointRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<RestoreCheckpointReply>> Route(
      const RestoreCheckpointRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<ListCheckpointsReply>> Route(
      const ListCheckpointsRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<DescribeClusterReply>> Route(
      const DescribeClusterRequest& request, const CallLimit& limit);
  Task<absl::StatusOr<ResizeClusterReply>> Route(
      const ResizeClusterRequest& request, const CallLimit& limit);

  // All others go to every server: where replies can be added up, they are, and
  // else the first of the servers, the home of the call's namespace, answers.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Route(const Request& request,
                                               const CallLimit& limit);
  // Makes a call that changes all of `servers`, at the first before the others.
  // That some servers lack what the call removes is no error.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Change(
      const std::vector<std::string>& servers, const Request& request,
      const CallLimit& limit);

  // Chooses the server of mirrored namespaces that answers callers who are no
  // workers.
  const size_t reader_ = std::random_device()();
  ClusterServers servers_;
  ClusterSnapshots snapshots_{&servers_};
  KnownNamespaces namespaces_;
  BegunJoins joins_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_
