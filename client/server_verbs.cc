#include "client/server_verbs.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "client/internal/client_calls.h"
#include "client/internal/steady_now.h"
#include "client/internal/turn_page.h"

namespace tensorkv {

absl::Status ServerVerbs::CreateNamespace(absl::string_view name,
                                          const NamespaceConfig& config,
                                          OnExisting on_existing) {
  CreateNamespaceRequest request = {.name_space = std::string(name),
                                    .config = config,
                                    .on_existing = on_existing};
  return calls_->Call(request, call_options_).status();
}

absl::StatusOr<NamespaceStatus> ServerVerbs::DescribeNamespace(
    absl::string_view name) {
  DescribeNamespaceRequest request = {.name_space = std::string(name)};
  return calls_->Call(request, call_options_);
}

absl::StatusOr<std::vector<NamespaceStatus>> ServerVerbs::ListNamespaces() {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  std::vector<NamespaceStatus> namespaces;
  ListNamespacesRequest request;
  do {
    ASSIGN_OR_RETURN(ListNamespacesReply page,
                     calls_->Call(request, Within(end - SteadyNow())));
    absl::c_move(page.namespaces, std::back_inserter(namespaces));
    RETURN_IF_ERROR(TurnPage(page.next_page_token, request));
  } while (!request.page_token.empty());
  return namespaces;
}

absl::Status ServerVerbs::DeleteNamespace(absl::string_view name) {
  DeleteNamespaceRequest request = {.name_space = std::string(name)};
  return calls_->Call(request, call_options_).status();
}

absl::StatusOr<RebalanceNamespaceReply> ServerVerbs::RebalanceNamespace(
    absl::string_view name) {
  RebalanceNamespaceRequest request = {.name_space = std::string(name)};
  return calls_->Call(request, call_options_);
}

absl::StatusOr<ServerStatus> ServerVerbs::DescribeServer() {
  DescribeServerRequest request;
  return calls_->Call(request, call_options_);
}

absl::StatusOr<DescribeClusterReply> ServerVerbs::DescribeCluster() {
  DescribeClusterRequest request;
  return calls_->Call(request, call_options_);
}

absl::StatusOr<ResizeClusterReply> ServerVerbs::ResizeCluster(
    ResizeClusterRequest request) {
  return calls_->Call(request, call_options_);
}

absl::StatusOr<CheckpointStatus> ServerVerbs::SaveCheckpoint(
    absl::string_view name, std::vector<std::string> namespaces) {
  SaveCheckpointRequest request = {.name = std::string(name),
                                   .namespaces = std::move(namespaces)};
  return calls_->Call(request, call_options_);
}

absl::StatusOr<CheckpointStatus> ServerVerbs::RestoreCheckpoint(
    RestoreCheckpointRequest request) {
  return calls_->Call(request, call_options_);
}

absl::StatusOr<std::vector<CheckpointStatus>> ServerVerbs::ListCheckpoints() {
  ListCheckpointsRequest request;
  ASSIGN_OR_RETURN(ListCheckpointsReply reply,
                   calls_->Call(request, call_options_));
  return std::move(reply.checkpoints);
}

absl::Status ServerVerbs::DeleteCheckpoint(absl::string_view name) {
  DeleteCheckpointRequest request = {.name = std::string(name)};
  return calls_->Call(request, call_options_).status();
}

absl::StatusOr<CheckpointStatus> ServerVerbs::VerifyCheckpoint(
    absl::string_view name) {
  VerifyCheckpointRequest request = {.name = std::string(name)};
  return calls_->Call(request, call_options_);
}

}  // namespace tensorkv
