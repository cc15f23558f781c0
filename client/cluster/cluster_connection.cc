#include "client/cluster/cluster_connection.h"

#include <optional>
#include <type_traits>

#include "absl/strings/cord.h"
#include "client/cluster/added_replies.h"
#include "client/cluster/all_replies.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "contract/reason.h"
#include "contract/slices.h"

namespace tensorkv {
namespace {

// Bounds how often all servers are asked where one is in the cluster no more.
constexpr int kMostRounds = 4;

// Calls that go to every server, and may be made again whatever some have done.
template <typename Request>
constexpr bool kAsksAll = std::is_same_v<Request, JoinRequest> ||
                          std::is_same_v<Request, LeaveRequest> ||
                          (CallTypes<Request>::kRepeat == Repeat::kHarmless &&
                           !kNamesKeys<Request>);

// Returns a status about slices as one about their keys.
absl::Status AboutKeys(const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status result(status.code(), WithWholeKeys(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, absl::Cord(std::string(payload)));
  });
  ClearEffectMark(result);
  std::optional<ErrorInfo> info = ErrorInfoOf(status);
  if (!info) return result;
  for (auto& [name, value] : info->metadata)
    value = std::string(WholeKeyOf(value));
  return WithInfo(std::move(result), *info);
}

}  // namespace

Task<absl::Status> ClusterConnection::Make(AnyCall call, CallOptions options,
                                           CallThreads* threads) {
  const CallLimit limit = threads == nullptr ? CallLimit(options)
                                             : servers_.LimitOfStarted(options);
  Task<absl::Status> task =
      call.Visit([&](const auto& request, auto& reply) -> Task<absl::Status> {
        return MakeAs(request, reply, limit);
      });
  const absl::Status status = co_await task;
  co_return AboutKeys(status);
}

template <typename Request>
Task<absl::Status> ClusterConnection::MakeAs(const Request& request,
                                             ReplyTo<Request>& reply,
                                             const CallLimit& limit) {
  const auto start = [&]() -> Task<absl::StatusOr<ReplyTo<Request>>> {
    if constexpr (kMayReadSnapshot<Request>) {
      const SnapshotReference* const at = SnapshotIn(request);
      if (at != nullptr && at->uid() == 0) {
        return RouteToSnapshot(request, limit);
      }
    }
    return Route(request, limit);
  };
  Task<absl::StatusOr<ReplyTo<Request>>> task = start();
  absl::StatusOr<ReplyTo<Request>> made = co_await task;
  if constexpr (kAsksAll<Request>) {
    // One that was asked is in the cluster no more: the others are asked again.
    for (int i = 1; i < kMostRounds && IsAtWrongServer(made.status()); ++i) {
      Request next = request;
      NameAttempt("#", i, next);
      made = co_await Route(next, limit);
    }
  }
  CO_RETURN_IF_ERROR(made.status());
  reply = *std::move(made);
  co_return absl::OkStatus();
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::RouteToSnapshot(
    const Request& request, const CallLimit& limit) {
  Request made = request;
  uint64_t last = 0;
  for (;;) {
    CO_ASSIGN_OR_RETURN(const KnownSnapshot known,
                        co_await snapshots_.Resolve(
                            NamespaceIn(request), *SnapshotIn(request), limit));
    SetSnapshot(known.reference(), made);
    auto reply = co_await Route(made, limit);
    // The series goes on faster than it is read, or the number is another's, as
    // the home was started anew.
    const Reason reason = ReasonOf(reply.status());
    const bool may_go_on = (reason == Reason::kSnapshotLost ||
                            reason == Reason::kSnapshotNotFound) &&
                           known.uid != last;
    if (!may_go_on) co_return reply;
    last = known.uid;
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::Route(
    const Request& request, const CallLimit& limit) {
  if constexpr (std::is_same_v<Request, SetRuleRequest> ||
                std::is_same_v<Request, UpdateNamespaceRequest>) {
    CO_RETURN_IF_ERROR(co_await keys_.CheckTakes(request, limit));
  }
  std::vector<std::string> servers;
  if constexpr (kHasNamespace<Request>) {
    CO_ASSIGN_OR_RETURN(
        servers, co_await servers_.HomeFirst(NamespaceIn(request), limit));
  } else {
    CO_ASSIGN_OR_RETURN(servers, co_await servers_.All(limit));
  }
  if constexpr (requires(ReplyTo<Request> & reply) { Add(reply, reply); }) {
    CO_ASSIGN_OR_RETURN(std::vector<ReplyTo<Request>> replies,
                        co_await servers_.AllOfEach(servers, request, limit));
    co_return SumOf(std::move(replies));
  } else {
    co_return co_await Change(servers, request, limit);
  }
}

// Tells whether such a call removes something. Keys that an earlier one has
// removed from some servers are removed from the others; it fails with NotFound
// only where no server has any.
template <typename Request>
constexpr bool kRemoves = std::is_same_v<Request, UnsetRuleRequest> ||
                          std::is_same_v<Request, UnsetMultipliersRequest> ||
                          std::is_same_v<Request, DeleteNamespaceRequest> ||
                          std::is_same_v<Request, DeleteCheckpointRequest>;

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClusterConnection::Change(
    const std::vector<std::string>& servers, const Request& request,
    const CallLimit& limit) {
  static_assert(
      kRemoves<Request> || CallTypes<Request>::kRepeat == Repeat::kHarmless,
      "a call that may not come twice must say what its repeat means");
  const auto is_missing = [](const absl::Status& status) {
    return kRemoves<Request> && absl::IsNotFound(status);
  };
  constexpr bool is_delete = std::is_same_v<Request, DeleteNamespaceRequest>;
  if constexpr (is_delete) namespaces_.Forget(request.namespace_());
  absl::StatusOr<ReplyTo<Request>> reply =
      co_await servers_.At(servers.front(), request, limit);
  if (!reply.ok() && !is_missing(reply.status())) co_return reply;
  Replies<ReplyTo<Request>> others =
      co_await servers_.AtEach(AfterFirst(servers), request, limit);
  std::vector<absl::Status> errors;
  for (size_t i = 0; i < others.size(); ++i) {
    absl::Status status = others[i].status();
    if constexpr (is_delete) {
      status = co_await RemoveEarlier(servers[i + 1], request.namespace_(),
                                      request.namespace_uid(), status, limit);
      // A later one was created meanwhile, and stays.
      if (IsOfFormerNamespace(status)) continue;
    }
    if (!is_missing(status)) errors.push_back(status);
    if (others[i].ok() && !reply.ok()) reply = *std::move(others[i]);
  }
  CO_RETURN_IF_ERROR(MostActionableError(errors));
  co_return reply;
}

}  // namespace tensorkv
