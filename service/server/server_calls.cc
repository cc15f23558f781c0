#include "service/server/server_calls.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/version.h"
#include "service/rpc/message_limits.h"

namespace tensorkv {
namespace {

// Returns the outcome of a call as its reply, or the error.
template <typename Reply>
absl::StatusOr<Reply> ReplyOf(absl::StatusOr<Reply> outcome) {
  return outcome;
}
template <typename Reply>
absl::StatusOr<Reply> ReplyOf(absl::Status outcome) {
  if (!outcome.ok()) return outcome;
  return Reply();
}

// Returns the subject of a call, for the audit. Of checkpoints and their
// namespaces, which the server may have chosen: "name of a,b".
template <typename Request>
std::string SubjectOf(const Request& request,
                      const absl::StatusOr<ReplyTo<Request>>& reply) {
  if constexpr (requires { request.namespaces(); }) {
    const auto& namespaces = request.namespaces().empty() && reply.ok()
                                 ? reply->checkpoint().namespaces()
                                 : request.namespaces();
    std::string subject =
        absl::StrCat(reply.ok() ? reply->checkpoint().name() : request.name(),
                     " of ", absl::StrJoin(namespaces, ","));
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

absl::Status HasNoDirectory() {
  return absl::FailedPreconditionError(
      "the server has no directory for checkpoints: --checkpoint_dir");
}

}  // namespace

ServerCalls::ServerCalls(Parts parts)
    : parts_(std::move(parts)),
      start_unix_seconds_(absl::ToUnixSeconds(absl::Now())) {}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ServerCalls::Audited(
    const Request& request, const CallContext& context,
    absl::StatusOr<ReplyTo<Request>> reply) const {
  static_assert(CallTypes<Request>::kScope != Scope::kNamespace,
                "nobody checks the right in a namespace here");
  parts_.access->Audit(kMethodOf<Request>, SubjectOf(request, reply),
                       context.caller, reply.status());
  return reply;
}

#define TENSORKV_VERB(name, ...)                                               \
  absl::StatusOr<name##Reply> ServerCalls::Make(const name##Request& request,  \
                                                const CallContext& context) {  \
    Checkpoints* const checkpoints = parts_.checkpoints();                     \
    if (checkpoints == nullptr) return HasNoDirectory();                       \
    return Audited(request, context,                                           \
                   ReplyOf<name##Reply>(checkpoints->name(request, context))); \
  }
TENSORKV_CHECKPOINT_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB
#define TENSORKV_VERB(name, ...)                                              \
  absl::StatusOr<name##Reply> ServerCalls::Make(const name##Request& request, \
                                                const CallContext& context) { \
    return Audited(request, context, ReplyOf<name##Reply>(name(request)));    \
  }
TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

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
