// Calls about the workers of a namespace.

#include <cstdint>
#include <map>
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
#include "contract/reason.h"
#include "contract/requests.h"

namespace tensorkv {
namespace {

// Bounds how often a Barrier goes to where the home has moved.
constexpr int kMostHomes = 4;
// Bounds how often a Join asks the home for another epoch.
constexpr int kMostEpochs = 4;

}  // namespace

absl::StatusOr<JoinReply> ClusterConnection::Route(const JoinRequest& request,
                                                   const CallLimit& limit) {
  ASSIGN_OR_RETURN(const auto servers,
                   servers_.HomeFirst(request.namespace_(), limit));
  JoinRequest next = request;
  for (int attempt = 0;; ++attempt) {
    const absl::StatusOr<JoinReply> reply = JoinAll(servers, next, limit);
    // A server has lost the worker since the home has given it that epoch.
    if (ReasonOf(reply.status()) != Reason::kLeaseLost ||
        attempt + 1 == kMostEpochs) {
      return reply;
    }
    next = request;
    NameAttempt("&", attempt + 1, next);
  }
}

absl::StatusOr<JoinReply> ClusterConnection::JoinAll(
    const std::vector<std::string>& servers, const JoinRequest& request,
    const CallLimit& limit) {
  ASSIGN_OR_RETURN(const KnownNamespace known,
                   KnowAt(servers.front(), request.namespace_(),
                          request.namespace_uid(), limit));
  JoinRequest at_home = request;
  at_home.set_replaces_epoch(joins_.ReplacedBy(request));
  ASSIGN_OR_RETURN(JoinReply total,
                   servers_.At(servers.front(), at_home, limit));
  joins_.Begin(request, total.worker().epoch());
  JoinRequest elsewhere = request;
  elsewhere.set_rank(total.worker().rank());
  elsewhere.set_epoch(total.worker().epoch());
  ASSIGN_OR_RETURN(const std::vector<JoinReply> joined,
                   AskEach(AfterFirst(servers), elsewhere, limit));
  std::map<std::string, uint64_t> incarnations = {
      {servers.front(), total.server_incarnation()}};
  for (size_t i = 0; i < joined.size(); ++i) {
    const JoinReply& other = joined[i];
    total.set_next_step(
        NextStepOf(known.mode, total.next_step(), other.next_step()));
    incarnations[servers[i + 1]] = other.server_incarnation();
    SetToShorter(other.lease(), *total.mutable_lease());
    total.set_lost_before(total.lost_before() || other.lost_before());
  }
  total.set_server_incarnation(
      joins_.Complete(request, std::move(incarnations)));
  return total;
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
  const auto known = KnowAt(servers.front(), request.namespace_(),
                            request.namespace_uid(), limit);
  if (!request.lost() && known.ok() && known->is_mirrored) {
    ASSIGN_OR_RETURN(const PlacementPtr placement, servers_.Placement(limit));
    const std::optional<Step> step = StepAtItsMirror(
        *placement, request, [&](const std::string& server, const auto& ask) {
          return servers_.At(server, ask, limit);
        });
    if (step) leave.set_step(*step);
  }
  std::vector<absl::Status> outcomes =
      StatusesOf(servers_.AtEach(servers, leave, limit));
  for (size_t i = 1; i < outcomes.size(); ++i) {
    // Whoever is no member there has left.
    if (outcomes.front().ok() && IsNoMember(outcomes[i])) {
      outcomes[i] = absl::OkStatus();
    }
  }
  RETURN_IF_ERROR(MostActionableError(outcomes));
  return LeaveReply();
}

absl::StatusOr<BarrierReply> ClusterConnection::Route(
    const BarrierRequest& request, const CallLimit& limit) {
  ASSIGN_OR_RETURN(PlacementPtr placement, servers_.Placement(limit));
  for (int attempt = 0;; ++attempt) {
    const std::string& home =
        placement->servers[OwnerOf(*placement, request.namespace_(), "")].name;
    const absl::StatusOr<BarrierReply> reply =
        servers_.At(home, request, limit);
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
