#include "client/server_verbs.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "client/internal/calls/client_calls.h"
#include "client/internal/calls/next_page.h"
#include "client/internal/steady_now.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

// Returns the checkpoint that the reply tells of.
template <typename Reply>
absl::StatusOr<CheckpointStatus> CheckpointOf(absl::StatusOr<Reply> reply) {
  RETURN_IF_ERROR(reply.status());
  return std::move(*reply->mutable_checkpoint());
}

}  // namespace

absl::Status ServerVerbs::CreateNamespace(absl::string_view name,
                                          const NamespaceConfig& config,
                                          OnExisting on_existing) {
  CreateNamespaceRequest request;
  request.set_namespace_(std::string(name));
  ToProto(config, request.mutable_config());
  request.set_on_existing(EncodeOnExisting(on_existing));
  return calls_->Call(request, call_options_).status();
}

absl::StatusOr<NamespaceConfig> ServerVerbs::UpdateNamespace(
    absl::string_view name, const NamespaceConfig& config,
    std::vector<std::string> update_mask, uint64_t uid) {
  UpdateNamespaceRequest request;
  request.set_namespace_(std::string(name));
  request.set_namespace_uid(uid);
  ToProto(config, request.mutable_config());
  for (std::string& path : update_mask) {
    request.mutable_update_mask()->add_paths(std::move(path));
  }
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  absl::StatusOr<UpdateNamespaceReply> reply =
      calls_->Call(request, call_options_);
  if (absl::IsResourceExhausted(reply.status())) {
    // Maybe there is no memory to remember the call: a larger budget must not
    // need it.
    request.clear_call_id();
    reply = calls_->Send(request, OptionsWithTimeout(end - SteadyNow()));
  }
  RETURN_IF_ERROR(reply.status());
  return FromProto(reply->config());
}

absl::StatusOr<NamespaceStatus> ServerVerbs::DescribeNamespace(
    absl::string_view name) {
  DescribeNamespaceRequest request;
  request.set_namespace_(std::string(name));
  ASSIGN_OR_RETURN(DescribeNamespaceReply reply,
                   calls_->Call(request, call_options_));
  return std::move(*reply.mutable_status());
}

absl::StatusOr<std::vector<NamespaceStatus>> ServerVerbs::ListNamespaces() {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  std::vector<NamespaceStatus> namespaces;
  ListNamespacesRequest request;
  do {
    ASSIGN_OR_RETURN(
        ListNamespacesReply page,
        calls_->Call(request, OptionsWithTimeout(end - SteadyNow())));
    absl::c_move(*page.mutable_namespaces(), std::back_inserter(namespaces));
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty());
  return namespaces;
}

absl::Status ServerVerbs::DeleteNamespace(absl::string_view name,
                                          uint64_t uid) {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  if (uid == 0) {
    const absl::StatusOr<NamespaceStatus> status = DescribeNamespace(name);
    // Where servers of a cluster lack it, others may have it yet.
    if (!status.ok() && !absl::IsNotFound(status.status())) {
      return status.status();
    }
    if (status.ok()) uid = status->uid();
  }
  DeleteNamespaceRequest request;
  request.set_namespace_(std::string(name));
  request.set_namespace_uid(uid);
  const absl::Status status =
      calls_->Call(request, OptionsWithTimeout(end - SteadyNow())).status();
  if (!absl::IsResourceExhausted(status)) return status;
  // Maybe there is no memory to remember the call: what frees memory must not
  // need it.
  request.clear_call_id();
  return calls_->Send(request, OptionsWithTimeout(end - SteadyNow())).status();
}

absl::StatusOr<CheckpointStatus> ServerVerbs::SaveCheckpoint(
    absl::string_view name, const std::vector<std::string>& namespaces) {
  SaveCheckpointRequest request;
  request.set_name(std::string(name));
  request.mutable_namespaces()->Add(namespaces.begin(), namespaces.end());
  return CheckpointOf(Call(std::move(request)));
}

absl::StatusOr<CheckpointStatus> ServerVerbs::RestoreCheckpoint(
    RestoreCheckpointRequest request) {
  return CheckpointOf(Call(std::move(request)));
}

absl::Status ServerVerbs::DeleteCheckpoint(absl::string_view name) {
  DeleteCheckpointRequest request;
  request.set_name(std::string(name));
  return Call(std::move(request)).status();
}

absl::StatusOr<CheckpointStatus> ServerVerbs::VerifyCheckpoint(
    absl::string_view name) {
  VerifyCheckpointRequest request;
  request.set_name(std::string(name));
  return CheckpointOf(Call(std::move(request)));
}

absl::StatusOr<std::vector<CheckpointStatus>> ServerVerbs::ListCheckpoints() {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  std::vector<CheckpointStatus> checkpoints;
  ListCheckpointsRequest request;
  do {
    ASSIGN_OR_RETURN(
        ListCheckpointsReply page,
        calls_->Call(request, OptionsWithTimeout(end - SteadyNow())));
    absl::c_move(*page.mutable_checkpoints(), std::back_inserter(checkpoints));
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty());
  absl::c_stable_sort(checkpoints,
                      [](const CheckpointStatus& a, const CheckpointStatus& b) {
                        return a.sequence() < b.sequence();
                      });
  return checkpoints;
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ServerVerbs::Call(Request request) {
  return calls_->Call(request, call_options_);
}
#define TENSORKV_INSTANTIATE(name, ...) \
  template absl::StatusOr<name##Reply> ServerVerbs::Call(name##Request request);
TENSORKV_NAMESPACE_METHODS(TENSORKV_INSTANTIATE)
TENSORKV_CHECKPOINT_METHODS(TENSORKV_INSTANTIATE)
TENSORKV_SERVER_METHODS(TENSORKV_INSTANTIATE)
#undef TENSORKV_INSTANTIATE

}  // namespace tensorkv
