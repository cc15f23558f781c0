// Calls about the workers of a namespace.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/cluster_connection.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/mirrored_calls.h"
#include "client/cluster/share_outcomes.h"
#include "client/internal/worker/worker_errors.h"
#include "contract/reason.h"
#include "contract/requests.h"

namespace tensorkv {
namespace {

// Bounds how often a Join asks the home for another epoch.
constexpr int kMostEpochs = 4;

}  // namespace

Task<absl::StatusOr<JoinReply>> ClusterConnection::Route(
    const JoinRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  const auto join =
      [&](const JoinRequest& made,
          const KnownNamespace& known) -> Task<absl::StatusOr<JoinReply>> {
    for (int attempt = 0;; ++attempt) {
      JoinRequest named = made;
      NameAttempt("&", attempt, named);
      const absl::StatusOr<JoinReply> reply =
          co_await JoinAll(servers, named, known.mode, limit);
      // A server has lost the worker since the home has given it that epoch.
      const bool needs_epoch = ReasonOf(reply.status()) == Reason::kLeaseLost;
      if (!needs_epoch || attempt + 1 == kMostEpochs) co_return reply;
    }
  };
  co_return co_await namespaces_.MakeFor(servers.front(), request, limit, join);
}

Task<absl::StatusOr<JoinReply>> ClusterConnection::JoinAll(
    const std::vector<std::string>& servers, const JoinRequest& request,
    Mode mode, const CallLimit& limit) {
  JoinRequest at_home = request;
  at_home.set_replaces_epoch(joins_.ReplacedBy(request));
  CO_ASSIGN_OR_RETURN(JoinReply total,
                      co_await servers_.At(servers.front(), at_home, limit));
  joins_.Begin(request, total.worker().epoch());
  JoinRequest elsewhere = request;
  elsewhere.set_rank(total.worker().rank());
  elsewhere.set_epoch(total.worker().epoch());
  CO_ASSIGN_OR_RETURN(
      const std::vector<JoinReply> joined,
      co_await servers_.AllOfEach(AfterFirst(servers), elsewhere, limit));
  std::map<std::string, uint64_t> incarnations = {
      {servers.front(), total.server_incarnation()}};
  for (size_t i = 0; i < joined.size(); ++i) {
    const JoinReply& other = joined[i];
    total.set_next_step(NextStepOf(mode, total.next_step(), other.next_step()));
    incarnations[servers[i + 1]] = other.server_incarnation();
    SetToShorter(other.lease(), *total.mutable_lease());
    total.set_lost_before(total.lost_before() || other.lost_before());
  }
  total.set_server_incarnation(
      joins_.Complete(request, std::move(incarnations)));
  co_return total;
}

Task<absl::StatusOr<KeepAliveReply>> ClusterConnection::Route(
    const KeepAliveRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  CO_ASSIGN_OR_RETURN(const std::vector<KeepAliveReply> replies,
                      co_await servers_.AllOfEach(servers, request, limit));
  KeepAliveReply total = replies.front();
  for (const KeepAliveReply& reply : replies) {
    SetToShorter(reply.lease_remaining(), *total.mutable_lease_remaining());
    total.set_next_step(NextStepOf(namespaces_.ModeOf(request.namespace_()),
                                   total.next_step(), reply.next_step()));
  }
  co_return total;
}

Task<absl::StatusOr<LeaveReply>> ClusterConnection::Route(
    const LeaveRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const auto servers,
                      co_await servers_.HomeFirst(request.namespace_(), limit));
  LeaveRequest leave = request;
  // A worker that is lost tells no step.
  const auto known = co_await namespaces_.KnowAt(
      servers.front(), request.namespace_(), request.namespace_uid(), limit);
  if (!request.lost() && known.ok() && known->is_mirrored) {
    CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                        co_await servers_.Placement(limit));
    const auto at = [&](const std::string& server, const auto& ask) {
      return servers_.At(server, ask, limit);
    };
    const std::optional<Step> step =
        co_await StepAtItsMirror(*placement, request, at);
    if (step) leave.set_step(*step);
  }
  const Replies<LeaveReply> replies =
      co_await servers_.AtEach(servers, leave, limit);
  std::vector<absl::Status> outcomes = StatusesOf(replies);
  for (size_t i = 1; i < outcomes.size(); ++i) {
    // Whoever is no member there has left.
    if (outcomes.front().ok() && IsNoMember(outcomes[i])) {
      outcomes[i] = absl::OkStatus();
    }
  }
  CO_RETURN_IF_ERROR(MostActionableError(outcomes));
  co_return LeaveReply();
}

}  // namespace tensorkv
