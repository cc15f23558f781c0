#include "service/server/server_calls.h"

#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/version.h"
#include "service/rpc/message_limits.h"

namespace tensorkv {
namespace {

// The verb of that name.
#define TENSORKV_CALL(name, ...)                                    \
  auto Call(Checkpoints& checkpoints, const name##Request& request, \
            const CallContext& context) {                           \
    return checkpoints.name(request, context);                      \
  }
TENSORKV_CHECKPOINT_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL
#define TENSORKV_CALL(name, ...)                                       \
  auto Call(const ServerCalls& server, const name##Request& request) { \
    return server.name(request);                                       \
  }
TENSORKV_SERVER_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL

// Returns the subject of a call, for the audit. Of checkpoints and their
// namespaces, which the server may have chosen: "name of a,b".
template <typename Request>
std::string SubjectOf(const Request& request, const absl::Status& outcome,
                      const ReplyTo<Request>& reply) {
  if constexpr (requires { request.namespaces(); }) {
    const CheckpointStatus& checkpoint = reply.checkpoint();
    const auto& namespaces = request.namespaces().empty() && outcome.ok()
                                 ? checkpoint.namespaces()
                                 : request.namespaces();
    std::string subject =
        absl::StrCat(outcome.ok() ? checkpoint.name() : request.name(), " of ",
                     absl::StrJoin(namespaces, ","));
    if constexpr (requires { request.as_namespace(); }) {
      if (!request.as_namespace().empty()) {
        absl::StrAppend(&subject, " as ", request.as_namespace());
      }
    }
    return subject;
  } else if constexpr (requires { request.name(); }) {
    return request.name();
  } else if constexpr (requires { request.add(), request.remove(); }) {
    return absl::StrCat("add=", absl::StrJoin(request.add(), ","),
                        " remove=", absl::StrJoin(request.remove(), ","),
                        " lost=", absl::StrJoin(request.lost(), ","),
                        request.give_up() ? " give_up" : "");
  }
  return "";
}

}  // namespace

ServerCalls::ServerCalls(Parts parts)
    : parts_(std::move(parts)),
      start_unix_seconds_(absl::ToUnixSeconds(absl::Now())) {}

absl::Status ServerCalls::Ask(const AnyCall& call,
                              const CallContext& context) const {
  return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
    using Request = std::remove_cvref_t<decltype(request)>;
    constexpr bool kIsAboutServer =
        kIsOfCheckpoints<Request> || kIsOfServer<Request>;
    static_assert(
        !kIsAboutServer || CallTypes<Request>::kScope != Scope::kNamespace,
        "nobody checks the right in a namespace here");
    absl::Status outcome;
    if constexpr (kIsOfCheckpoints<Request>) {
      Checkpoints* const checkpoints = parts_.checkpoints();
      if (checkpoints == nullptr) {
        return absl::FailedPreconditionError(
            "the server has no directory for checkpoints: --checkpoint_dir");
      }
      outcome = SetReply(Call(*checkpoints, request, context), reply);
    } else if constexpr (kIsOfServer<Request>) {
      outcome = SetReply(Call(*this, request), reply);
    } else {
      return absl::InternalError(absl::StrCat(
          NameOf(call.method()), ": expected a call about the server"));
    }
    parts_.access->Audit(call.method(), SubjectOf(request, outcome, reply),
                         context.caller, outcome);
    return outcome;
  });
}

absl::StatusOr<ServerStatus> ServerCalls::DescribeServer(
    const DescribeServerRequest&) const {
  const ServerBudgets& budgets = parts_.engine->budgets();
  ServerStatus status;
  status.set_version(kVersion);
  status.set_incarnation(parts_.incarnation->id());
  status.mutable_start_time()->set_seconds(start_unix_seconds_);
  status.add_devices(budgets.device_name());
  status.set_budget_bytes(budgets.host()->limit_bytes());
  status.set_used_bytes(budgets.host()->used_bytes());
  status.set_max_message_bytes(parts_.options->max_message_bytes);
  status.set_max_entries(MessageLimits().max_entries);
  for (const DeviceBudget& budget : budgets.DeviceBudgets()) {
    v1::DeviceBudget& its = *status.add_device_budgets();
    its.set_device(budget.device);
    its.set_budget_bytes(budget.budget_bytes);
    its.set_used_bytes(budget.used_bytes);
  }
  return status;
}

absl::StatusOr<DescribeClusterReply> ServerCalls::DescribeCluster(
    const DescribeClusterRequest&) const {
  return parts_.placement->Describe();
}

absl::StatusOr<ResizeClusterReply> ServerCalls::ResizeCluster(
    const ResizeClusterRequest& request) const {
  ClusterPart* const cluster = parts_.cluster();
  if (cluster != nullptr) return cluster->Resize(request);
  return absl::FailedPreconditionError("the server is in no cluster");
}

}  // namespace tensorkv
