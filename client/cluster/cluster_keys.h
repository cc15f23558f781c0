// Calls about keys, at the servers that own them.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_KEYS_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_KEYS_H_

#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cluster/call_progress.h"
#include "client/cluster/call_shares.h"
#include "client/cluster/cluster_servers.h"
#include "client/cluster/cluster_snapshots.h"
#include "client/cluster/known_namespaces.h"
#include "client/cluster/split_layout.h"
#include "client/cluster/waits.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Makes calls about keys. Thread-safe.
//
// A call goes, in shares, to those that own its keys, at the same time; each
// share is all or nothing, the whole is not. A share that is refused because
// another server owns its keys has had no effect: it is cut anew by the newest
// placement and made there.
//
// Keys whose tensors are larger than the cluster's `split_bytes` are in slices
// (cluster.proto). Calls about them are cut by slices, and answered by keys.
// Which keys these are is read when a namespace is first used, and again when a
// call shows that it has changed: an Init or Delete, a push that may be the
// first to a large key, a call that does not find a key. A call that waits for
// keys that do not exist looks every second whether they are in slices. A key
// in slices is as old as its oldest slice: that is its version. Pushes bring
// encoded tensors to no such key (Unimplemented). Its KeyStatus has no digest.
// Which keys of a snapshot are in slices, the snapshot tells.
//
// Errors: as ClusterConnection says. They may name slices.
class ClusterKeys {
 public:
  // All of these outlive it.
  ClusterKeys(ClusterServers* servers, KnownNamespaces* namespaces,
              ClusterSnapshots* snapshots)
      : servers_(*servers), namespaces_(*namespaces), snapshots_(*snapshots) {}

  // Make a call that names keys, and a List.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Make(const Request& request,
                                              const CallLimit& limit);
  Task<absl::StatusOr<ListReply>> List(const ListRequest& request,
                                       const CallLimit& limit);

  // Check, before any server gets the request, that no key in slices would get
  // a rule that needs whole keys, or a gradient guard. Not every server has a
  // slice to refuse it for. Errors: InvalidArgument.
  Task<absl::Status> CheckTakes(const SetRuleRequest& request,
                                const CallLimit& limit);
  Task<absl::Status> CheckTakes(const UpdateNamespaceRequest& request,
                                const CallLimit& limit);

 private:
  // Bounds how often a call is routed again where nobody tells of a newer
  // placement. Servers may learn of one one after the other.
  static constexpr int kMostAttempts = 4;

  template <typename Request>
  using Progress = CallProgress<Request>;
  template <typename Reply>
  using Replies = std::vector<absl::StatusOr<Reply>>;

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
  // Returns what KnowAt does for a call, at the owner of its first key.
  template <typename Request>
  Task<absl::StatusOr<KnownNamespace>> KnowFor(const Request& request,
                                               const CallLimit& limit);
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
  // Lists keys, and slices, as the servers have them.
  Task<absl::StatusOr<ListReply>> ListStored(const ListRequest& request,
                                             const CallLimit& limit);
  Task<absl::StatusOr<ListReply>> ListOnce(const ListRequest& request,
                                           const CallLimit& limit);
  // Lists what each server has of a namespace that is not mirrored. `known` is
  // a placement.
  Task<absl::StatusOr<ListReply>> ListPlaced(const ListRequest& request,
                                             const PlacementPtr& known,
                                             const CallLimit& limit);

  // Lists the keys in slices, those that have all of them, as far as `end`.
  Task<absl::StatusOr<ListReply>> ListInSlices(const ListRequest& request,
                                               const std::string& end,
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

  // Chooses the server of mirrored namespaces that answers callers who are no
  // workers.
  const size_t reader_ = std::random_device()();
  ClusterServers& servers_;
  KnownNamespaces& namespaces_;
  ClusterSnapshots& snapshots_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_KEYS_H_
