// Several servers as one store.

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/call_shares.h"
#include "client/cluster/cluster_servers.h"
#include "client/cluster/known_namespaces.h"
#include "client/connection.h"
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
// What servers give names of their own, uids and epochs, has that of the home
// here. So workers sign their calls over the connection over which they have
// joined. Their ranks are those of the home on every server.
//
// Errors: of those that servers give, the one that MostActionableError chooses;
// Unavailable names the server. In MODE_ASYNC a push of which a share has, or
// may have, been applied, does not fail in a way that lets workers push it
// again: it fails with FailedPrecondition (OUTCOME_UNKNOWN) then. Unavailable
// too where no server tells who owns what.
class ClusterConnection final : public Connection {
 public:
  explicit ClusterConnection(ClusterServersOptions options)
      : servers_(std::move(options)) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override;

  // Returns the newest placement that is known; the first time, one that is
  // waited for within the options' timeout. Errors: those of PlacementSource.
  absl::StatusOr<PlacementPtr> Placement(const CallOptions& options) {
    return servers_.Placement(servers_.LimitOf(options));
  }

 private:
  template <typename Reply>
  using Replies = std::vector<absl::StatusOr<Reply>>;
  // Returns the request for each of the servers: with the uid of the namespace
  // and, of a call that a member must make, the worker as that server knows
  // them. The first of the servers is then the namespace's home.
  template <typename Request>
  absl::StatusOr<std::vector<Request>> RequestsFor(
      absl::Span<const std::string> servers, const Request& request,
      const CallLimit& limit) {
    std::vector<Request> requests(servers.size(), request);
    if constexpr (kHasNamespace<Request>) {
      const std::string& name_space = NamespaceIn(request);
      for (size_t i = 0; i < servers.size(); ++i) {
        ASSIGN_OR_RETURN(
            const uint64_t uid,
            UidAt(servers[i], name_space, NamespaceUidIn(request), limit));
        SetNamespaceUid(uid, requests[i]);
        if constexpr (requires { request.worker().epoch(); }) {
          SetWorker(WorkerAt(servers[i], servers.front(), name_space,
                             WorkerOf(request.worker())),
                    requests[i].mutable_worker());
        }
      }
    }
    return requests;
  }
  // Returns the answer of each of the servers. Errors: the one that
  // MostActionableError chooses.
  template <typename Request>
  absl::StatusOr<std::vector<ReplyTo<Request>>> AskEach(
      absl::Span<const std::string> servers, const Request& request,
      const CallLimit& limit) {
    ASSIGN_OR_RETURN(const std::vector<Request> requests,
                     RequestsFor(servers, request, limit));
    return AllOf(servers_.MakeEach(servers, requests, limit));
  }
  // Returns a request with the uid and the worker as `server` knows them. Asks
  // servers where they were not learnt.
  template <typename Request>
  absl::StatusOr<Request> Translated(Request request, const std::string& server,
                                     const CallLimit& limit);
  // Returns the worker that is `worker` at home, at `server`.
  Worker WorkerAt(const std::string& server, const std::string& home,
                  const std::string& name_space, const Worker& worker) const;
  // Returns the uid at `server` of the namespace that has `uid` at home; `uid`
  // itself where nobody knows such a namespace. Asks all servers where it was
  // not learnt.
  absl::StatusOr<uint64_t> UidAt(const std::string& server,
                                 const std::string& name_space, uint64_t uid,
                                 const CallLimit& limit);

  // Calls about keys. Route makes one at the servers that it concerns.
  template <typename Request>
  struct Progress {
    ReplyTo<Request> reply = {};
    // The places of entries whose shares are to be made (again).
    std::vector<size_t> open;
    // Holds how the shares have ended that were refused at the last attempt
    // because they were at the wrong server.
    std::vector<absl::Status> refusals;
    // A server that has refused one; empty: none has.
    std::string refused_by;
    // Holds how all other shares have ended.
    std::vector<absl::Status> outcomes;
  };
  template <typename Request>
  requires kNamesKeys<Request> absl::StatusOr<ReplyTo<Request>> Route(
      const Request& request, const CallLimit& limit);
  // Makes the call at the owners of its keys. Errors: FailedPrecondition
  // (NAMESPACE_REPLACED), before any effect, where the namespace is mirrored.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> MakePlaced(const Request& request,
                                              const CallLimit& limit);
  // Returns whether every server holds the namespace's keys. Asks `server`
  // where that was not learnt; false where it does not tell.
  bool IsMirrored(const std::string& name_space, const std::string& server,
                  const CallLimit& limit);
  // Asks a server anew, and returns whether the namespace is of another kind
  // (mirrored or not) by now; false where the server does not tell. Errors:
  // NotFound.
  absl::StatusOr<bool> HasChanged(const std::string& server,
                                  const std::string& name_space,
                                  bool was_mirrored, const CallLimit& limit);
  // Makes a call, or a share of one, at a server, where the namespace is taken
  // for mirrored or not. A call that changes keys has no effect, and ends with
  // FailedPrecondition (NAMESPACE_REPLACED), where the namespace is of the
  // other kind: the call would reach only some of the servers that have the
  // keys, or one that has not.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> AtOfKind(
      const std::string& server, Request request, bool is_mirrored,
      const CallLimit& limit, absl::Span<const Destination> destinations);
  // Sets the uid in a request that changes keys to that of the namespace of
  // which the server has told, so that the server refuses the request if
  // another namespace has the name by then. Errors: FailedPrecondition
  // (NAMESPACE_REPLACED) where the namespace is of the other kind; those of
  // DescribeNamespace.
  template <typename Request>
  absl::Status FixKind(const std::string& server, bool is_mirrored,
                       const CallLimit& limit, Request& request);
  // Returns what the server has told of the namespace; asks it where it has
  // not.
  absl::StatusOr<KnownNamespaces::Kind> KindAt(const std::string& server,
                                               const std::string& name_space,
                                               const CallLimit& limit);
  // Makes a call about keys of a mirrored namespace: an Init, a SetState or a
  // Delete at all servers, any other call at one.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> MakeMirrored(const Request& request,
                                                const CallLimit& limit);
  // Makes the shares of the entries that are open, each at its owner by that
  // placement, at the same time. `progress` gets how they have ended.
  template <typename Request>
  void MakeShares(const CallShares<Request>& call,
                  const ClusterPlacement& placement, int attempt,
                  const CallLimit& limit, Progress<Request>& progress);
  // Returns whether a share may wait for workers that have gone back with
  // another server, and may be cancelled then, since it is made again.
  template <typename Request>
  bool MayWaitInVain(const CallShares<Request>& call) const;
  // Makes one share, under a call_id of its own if it is not the first attempt.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> MakeShare(const CallShares<Request>& shares,
                                             const CallShare& share,
                                             int attempt,
                                             const CallLimit& limit);
  // Returns the error of a call whose shares have ended so, marked as
  // WithoutEffect says if none had an effect; OK if all are.
  template <typename Request>
  absl::Status ErrorOf(const Request& request,
                       absl::Span<const absl::Status> outcomes) const;
  absl::StatusOr<ListReply> Route(const ListRequest& request,
                                  const CallLimit& limit);

  // These are about namespaces and rules.
  absl::StatusOr<CreateNamespaceReply> Route(
      const CreateNamespaceRequest& request, const CallLimit& limit);
  absl::StatusOr<DescribeNamespaceReply> Route(
      const DescribeNamespaceRequest& request, const CallLimit& limit);
  absl::StatusOr<ListNamespacesReply> Route(
      const ListNamespacesRequest& request, const CallLimit& limit);

  // These are about workers.
  absl::StatusOr<JoinReply> Route(const JoinRequest& request,
                                  const CallLimit& limit);
  // Joins at one server, in place of the epoch that the worker has there.
  absl::StatusOr<JoinReply> JoinAt(const std::string& server, bool is_home,
                                   const JoinRequest& request,
                                   const CallLimit& limit);
  absl::StatusOr<KeepAliveReply> Route(const KeepAliveRequest& request,
                                       const CallLimit& limit);
  absl::StatusOr<LeaveReply> Route(const LeaveRequest& request,
                                   const CallLimit& limit);
  absl::StatusOr<BarrierReply> Route(const BarrierRequest& request,
                                     const CallLimit& limit);

  // Checkpoints and servers.
  absl::StatusOr<SaveCheckpointReply> Route(
      const SaveCheckpointRequest& request, const CallLimit& limit);
  absl::StatusOr<RestoreCheckpointReply> Route(
      const RestoreCheckpointRequest& request, const CallLimit& limit);
  absl::StatusOr<ListCheckpointsReply> Route(
      const ListCheckpointsRequest& request, const CallLimit& limit);
  absl::StatusOr<DescribeClusterReply> Route(
      const DescribeClusterRequest& request, const CallLimit& limit);
  absl::StatusOr<ResizeClusterReply> Route(const ResizeClusterRequest& request,
                                           const CallLimit& limit);

  // All others go to every server: where replies can be added up, they are, and
  // else the first of the servers, the home of the call's namespace, answers.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Route(const Request& request,
                                         const CallLimit& limit);
  // Makes a call that changes all of `servers`, at the first before the others.
  // That some servers lack what the call removes is no error.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Change(
      const std::vector<std::string>& servers, const Request& request,
      const CallLimit& limit);

  // Chooses the server of mirrored namespaces that answers callers who are no
  // workers.
  const size_t reader_ = std::random_device()();
  ClusterServers servers_;
  KnownNamespaces namespaces_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_CONNECTION_H_
