// Makes calls about keys of mirrored namespaces, which every server holds.
//
// What changes keys otherwise than by rounds goes to all servers; they refuse
// to sum rounds as long as it has not come to all.

#ifndef TENSORKV_CLIENT_CLUSTER_MIRRORED_CALLS_H_
#define TENSORKV_CLIENT_CLUSTER_MIRRORED_CALLS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/cluster/call_shares.h"
#include "client/cluster/merged_replies.h"
#include "client/internal/calls/task.h"
#include "contract/placement.h"
#include "contract/requests.h"

namespace tensorkv {

// Makes a call at a server by its name.
template <typename Request>
using CallAt = absl::FunctionRef<Task<absl::StatusOr<ReplyTo<Request>>>(
    const std::string& server, const Request& request)>;

// Returns the name of the server that a call goes to. For a worker it is the
// one that its rank gives. For others it is the first live one, counted around
// from index `reader` on: so readers are spread, and each sees versions rise.
template <typename Request>
const std::string& MirrorFor(const ClusterPlacement& placement,
                             const Request& request, size_t reader) {
  const std::vector<ClusterServer>& servers = placement.servers;
  if constexpr (requires { request.worker; }) {
    if (request.worker) {
      return servers[request.worker->rank % servers.size()].name;
    }
  }
  for (size_t i = 0; i < servers.size(); ++i) {
    const ClusterServer& server = servers[(reader + i) % servers.size()];
    if (server.live) return server.name;
  }
  return servers[reader % servers.size()].name;
}

// Asks the own server of a worker, which alone knows it, for the last step that
// the worker has contributed to. Returns nothing if the server does not tell.
inline Task<std::optional<Step>> StepAtItsMirror(
    const ClusterPlacement& placement, const LeaveRequest& request,
    CallAt<DescribeNamespaceRequest> describe) {
  const PushRequest push = {.worker = WorkerOf(request.worker())};
  DescribeNamespaceRequest question;
  question.set_namespace_(request.namespace_());
  const std::string& mirror = MirrorFor(placement, push, /*reader=*/0);
  const absl::StatusOr<DescribeNamespaceReply> reply =
      co_await describe(mirror, question);
  if (!reply.ok()) co_return std::nullopt;
  for (const WorkerStatus& each : reply->status().workers()) {
    if (each.worker().rank() == request.worker().rank()) co_return each.step();
  }
  co_return std::nullopt;
}

// Creates keys at the home, which decides what they are, and then elsewhere.
inline Task<absl::StatusOr<InitReply>> InitMirrored(
    const std::vector<std::string>& home_first, const InitRequest& request,
    CallAt<InitRequest> init, CallAt<PullRequest> pull) {
  CO_ASSIGN_OR_RETURN(InitReply reply,
                      co_await init(home_first.front(), request));
  InitRequest elsewhere = request;
  elsewhere.publish_as.reset();  // The home has the snapshots.
  if (request.on_existing == OnExisting::kFail) {
    elsewhere.on_existing = OnExisting::kKeep;
  }
  if (request.on_existing == OnExisting::kKeep) {
    // Somebody else may have created them there.
    PullRequest values = {.name_space = request.name_space};
    values.namespace_uid = request.namespace_uid;
    for (const InitEntry& entry : request.entries) {
      values.entries.push_back({.key = entry.key});
    }
    CO_ASSIGN_OR_RETURN(PullReply pulled,
                        co_await pull(home_first.front(), values));
    if (pulled.values.size() != values.entries.size()) {
      co_return absl::InternalError(
          absl::StrCat("expected ", values.entries.size(), " values, got ",
                       pulled.values.size()));
    }
    for (size_t i = 0; i < pulled.values.size(); ++i) {
      elsewhere.entries[i].tensor = std::move(pulled.values[i].tensor);
    }
  }
  for (size_t i = 1; i < home_first.size(); ++i) {
    CO_RETURN_IF_ERROR(co_await init(home_first[i], elsewhere));
  }
  co_return reply;
}

// Sets states at the home, which decides whether it may be, and then elsewhere.
inline Task<absl::StatusOr<SetStateReply>> SetStateMirrored(
    const std::vector<std::string>& home_first, const SetStateRequest& request,
    CallAt<SetStateRequest> set) {
  CO_ASSIGN_OR_RETURN(SetStateReply reply,
                      co_await set(home_first.front(), request));
  for (size_t i = 1; i < home_first.size(); ++i) {
    CO_RETURN_IF_ERROR(co_await set(home_first[i], request));
  }
  co_return reply;
}

// Removes keys from all servers, from the home last: as long as it has them
// they can be removed again.
inline Task<absl::StatusOr<DeleteReply>> DeleteMirrored(
    const std::vector<std::string>& home_first, const DeleteRequest& request,
    CallAt<DeleteRequest> remove) {
  DeleteRequest elsewhere = request;
  elsewhere.set_allow_missing(true);
  for (size_t i = 1; i < home_first.size(); ++i) {
    CO_RETURN_IF_ERROR(co_await remove(home_first[i], elsewhere));
  }
  co_return co_await remove(home_first.front(), request);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_MIRRORED_CALLS_H_
