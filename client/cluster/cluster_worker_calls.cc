// Calls about the workers of a namespace.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/mirrored_calls.h"
#include "client/cluster/share_outcomes.h"
#include "client/internal/worker_errors.h"
#include "contract/requests.h"

namespace tensorkv {
namespace {

// Bounds how often a Barrier goes to where the home has moved.
constexpr int kMostHomes = 4;

}  // namespace

absl::StatusOr<JoinReply> ClusterConnection::Route(const JoinRequest& request,
                                                   const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.namespace_(), limit));
  ASSIGN_OR_RETURN(JoinReply total,
                   JoinAt(servers.front(), /*is_home=*/true, request, limit));
  JoinRequest elsewhere = request;
  elsewhere.set_rank(total.worker().rank());
  Replies<JoinReply> others(servers.size() - 1);
  servers_.AtOnce(others.size(), [&](size_t i) {
    others[i] = JoinAt(servers[i + 1], /*is_home=*/false, elsewhere, limit);
  });
  ASSIGN_OR_RETURN(const std::vector<JoinReply> joined,
                   AllOf(std::move(others)));
  KnownNamespaces::ByServer<uint64_t> incarnations = {
      {servers.front(), total.server_incarnation()}};
  for (size_t i = 0; i < joined.size(); ++i) {
    const JoinReply& other = joined[i];
    total.set_next_step(NextStepOf(namespaces_.ModeOf(request.namespace_()),
                                   total.next_step(), other.next_step()));
    incarnations[servers[i + 1]] = other.server_incarnation();
    SetToShorter(other.lease(), *total.mutable_lease());
    total.set_lost_before(total.lost_before() || other.lost_before());
  }
  total.set_server_incarnation(namespaces_.CompleteJoin(
      request.namespace_(), request.worker_name(), WorkerOf(total.worker()),
      std::move(incarnations)));
  return total;
}

absl::StatusOr<JoinReply> ClusterConnection::JoinAt(const std::string& server,
                                                    bool is_home,
                                                    const JoinRequest& request,
                                                    const CallLimit& limit) {
  JoinRequest share = request;
  ASSIGN_OR_RETURN(const uint64_t uid, UidAt(server, request.namespace_(),
                                             request.namespace_uid(), limit));
  share.set_namespace_uid(uid);
  share.set_replaces_epoch(
      namespaces_
          .ReplacedAt(server, request.namespace_(), request.worker_name(),
                      request.replaces_epoch())
          .value_or(is_home ? request.replaces_epoch() : 0));
  ASSIGN_OR_RETURN(JoinReply reply, servers_.At(server, share, limit));
  namespaces_.SetJoined(request.namespace_(), request.worker_name(), server,
                        WorkerOf(reply.worker()));
  return reply;
}

absl::StatusOr<KeepAliveReply> ClusterConnection::Route(
    const KeepAliveRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.namespace_(), limit));
  ASSIGN_OR_RETURN(const std::vector<KeepAliveReply> replies,
                   AskEach(servers, request, limit));
  KeepAliveReply total = replies.front();
  for (const KeepAliveReply& reply : replies) {
    SetToShorter(reply.lease_remaining(), *total.mutable_lease_remaining());
    total.set_next_step(NextStepOf(namespaces_.ModeOf(request.namespace_()),
                                   total.next_step(), reply.next_step()));
  }
  return total;
}

absl::StatusOr<LeaveReply> ClusterConnection::Route(const LeaveRequest& request,
                                                    const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.namespace_(), limit));
  LeaveRequest leave = request;
  // A worker that is lost tells no step.
  if (!request.lost() &&
      IsMirrored(request.namespace_(), servers.front(), limit)) {
    ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
    const std::optional<Step> step = StepAtItsMirror(
        *placement, request, [&](const std::string& server, const auto& ask) {
          return servers_.At(server, ask, limit);
        });
    if (step) leave.set_step(*step);
  }
  ASSIGN_OR_RETURN(const std::vector<LeaveRequest> requests,
                   RequestsFor(servers, leave, limit));
  std::vector<absl::Status> outcomes =
      StatusesOf(servers_.MakeEach(servers, requests, limit));
  for (size_t i = 1; i < outcomes.size(); ++i) {
    // Whoever is no member there has left.
    if (outcomes.front().ok() && IsNoMember(outcomes[i])) {
      outcomes[i] = absl::OkStatus();
    }
  }
  const absl::Status status = MostActionableError(outcomes);
  if (status.ok() || absl::IsFailedPrecondition(status)) {
    namespaces_.Forget(request.namespace_(), WorkerOf(request.worker()));
  }
  RETURN_IF_ERROR(status);
  return LeaveReply();
}

absl::StatusOr<BarrierReply> ClusterConnection::Route(
    const BarrierRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  for (int attempt = 0;; ++attempt) {
    const std::string& home =
        placement->servers[OwnerOf(*placement, request.namespace_(), "")].name;
    ASSIGN_OR_RETURN(const std::vector<BarrierRequest> shares,
                     RequestsFor({home}, request, limit));
    const absl::StatusOr<BarrierReply> reply =
        servers_.At(home, shares.front(), limit);
    // The home has moved.
    if (!IsAtWrongServer(reply.status()) || attempt + 1 == kMostHomes) {
      return reply;
    }
    ASSIGN_OR_RETURN(
        placement,
        servers_.NewerThan(placement, VersionToldBy({reply.status()}), limit));
  }
}

}  // namespace tensorkv
