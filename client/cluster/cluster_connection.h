// Several servers as one store.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cluster/begun_joins.h"
#include "client/cluster/cluster_keys.h"
#include "client/cluster/cluster_servers.h"
#include "client/cluster/cluster_snapshots.h"
#include "client/cluster/known_namespaces.h"
#include "client/cluster/waits.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Makes calls at the servers of a cluster that they concern. Thread-safe.
//
// Calls about keys go to those that own them, as ClusterKeys says. Namespaces,
// rules, workers and checkpoints are on every server, and calls about them go
// to all, the namespace's home first; those that failed at some may be made
// again. docs/cluster.md says what that means for each verb.
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
  // These are about keys.
  template <typename Request>
  requires kNamesKeys<Request> Task<absl::StatusOr<ReplyTo<Request>>> Route(
      const Request& request, const CallLimit& limit) {
    return keys_.Make(request, limit);
  }
  Task<absl::StatusOr<ListReply>> Route(const ListRequest& request,
                                        const CallLimit& limit) {
    return keys_.List(request, limit);
  }

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
                                           const CallLimit& limit) {
    return servers_.AtHome(request, limit);
  }

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

  ClusterServers servers_;
  KnownNamespaces namespaces_{&servers_};
  ClusterSnapshots snapshots_{&servers_};
  ClusterKeys keys_{&servers_, &namespaces_, &snapshots_};
  BegunJoins joins_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_
