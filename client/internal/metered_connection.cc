#include "client/internal/metered_connection.h"

#include <utility>

#include "client/internal/result_status.h"

namespace tensorkv {
namespace {

// Works for requests with entries and for replies with values.
template <typename Holders>
int64_t TensorBytes(const Holders& holders) {
  int64_t bytes = 0;
  for (const auto& holder : holders) bytes += holder.tensor.size_bytes();
  return bytes;
}

int64_t TensorBytes(const absl::StatusOr<PullReply>& reply) {
  return reply.ok() ? TensorBytes(reply->values) : 0;
}

}  // namespace

MeteredConnection::MeteredConnection(
    std::unique_ptr<Connection> inner,
    std::shared_ptr<prometheus::Registry> registry,
    std::function<absl::Duration()> now)
    : inner_(std::move(inner)),
      now_(std::move(now)),
      metrics_(std::move(registry)) {}

template <typename Call>
std::invoke_result_t<Call> MeteredConnection::Meter(Verb verb, Call call) {
  metrics_.CountStarted(verb);
  const absl::Duration start = now_();
  auto result = call();
  metrics_.CountHandled(verb, ResultStatus(result).code(), now_() - start);
  return result;
}

absl::StatusOr<InitReply> MeteredConnection::Init(const InitRequest& request,
                                                  const CallOptions& options) {
  metrics_.CountSent(TensorBytes(request.entries));
  return Meter(Verb::kInit, [&] { return inner_->Init(request, options); });
}

absl::StatusOr<PushReply> MeteredConnection::Push(const PushRequest& request,
                                                  const CallOptions& options) {
  metrics_.CountSent(TensorBytes(request.entries));
  return Meter(Verb::kPush, [&] { return inner_->Push(request, options); });
}

absl::StatusOr<PullReply> MeteredConnection::Pull(const PullRequest& request,
                                                  const CallOptions& options) {
  auto reply =
      Meter(Verb::kPull, [&] { return inner_->Pull(request, options); });
  metrics_.CountReceived(TensorBytes(reply));
  return reply;
}

absl::StatusOr<PullReply> MeteredConnection::PushPull(
    const PushRequest& request, const CallOptions& options) {
  metrics_.CountSent(TensorBytes(request.entries));
  auto reply = Meter(Verb::kPushPull,
                     [&] { return inner_->PushPull(request, options); });
  metrics_.CountReceived(TensorBytes(reply));
  return reply;
}

absl::StatusOr<DeleteReply> MeteredConnection::Delete(
    const DeleteRequest& request, const CallOptions& options) {
  return Meter(Verb::kDelete, [&] { return inner_->Delete(request, options); });
}

absl::StatusOr<ListReply> MeteredConnection::List(const ListRequest& request,
                                                  const CallOptions& options) {
  return Meter(Verb::kList, [&] { return inner_->List(request, options); });
}

absl::StatusOr<StatReply> MeteredConnection::Stat(const StatRequest& request,
                                                  const CallOptions& options) {
  return Meter(Verb::kStat, [&] { return inner_->Stat(request, options); });
}

absl::StatusOr<CreateNamespaceReply> MeteredConnection::CreateNamespace(
    const CreateNamespaceRequest& request, const CallOptions& options) {
  return Meter(Verb::kCreateNamespace,
               [&] { return inner_->CreateNamespace(request, options); });
}

absl::StatusOr<NamespaceStatus> MeteredConnection::DescribeNamespace(
    const std::string& name_space, const CallOptions& options) {
  return Meter(Verb::kDescribeNamespace,
               [&] { return inner_->DescribeNamespace(name_space, options); });
}

absl::StatusOr<std::vector<NamespaceStatus>> MeteredConnection::ListNamespaces(
    const CallOptions& options) {
  return Meter(Verb::kListNamespaces,
               [&] { return inner_->ListNamespaces(options); });
}

absl::Status MeteredConnection::DeleteNamespace(const std::string& name_space,
                                                const CallOptions& options) {
  return Meter(Verb::kDeleteNamespace,
               [&] { return inner_->DeleteNamespace(name_space, options); });
}

absl::Status MeteredConnection::SetRule(const SetRuleRequest& request,
                                        const CallOptions& options) {
  return Meter(Verb::kSetRule,
               [&] { return inner_->SetRule(request, options); });
}

absl::Status MeteredConnection::UnsetRule(const UnsetRuleRequest& request,
                                          const CallOptions& options) {
  return Meter(Verb::kUnsetRule,
               [&] { return inner_->UnsetRule(request, options); });
}

absl::StatusOr<RuleSpec> MeteredConnection::SetHyperparameters(
    const SetHyperparametersRequest& request, const CallOptions& options) {
  return Meter(Verb::kSetHyperparameters,
               [&] { return inner_->SetHyperparameters(request, options); });
}

absl::StatusOr<JoinReply> MeteredConnection::Join(const JoinRequest& request,
                                                  const CallOptions& options) {
  return Meter(Verb::kJoin, [&] { return inner_->Join(request, options); });
}

absl::StatusOr<KeepAliveReply> MeteredConnection::KeepAlive(
    const KeepAliveRequest& request, const CallOptions& options) {
  return Meter(Verb::kKeepAlive,
               [&] { return inner_->KeepAlive(request, options); });
}

absl::Status MeteredConnection::Leave(const LeaveRequest& request,
                                      const CallOptions& options) {
  return Meter(Verb::kLeave, [&] { return inner_->Leave(request, options); });
}

absl::Status MeteredConnection::Barrier(const BarrierRequest& request,
                                        const CallOptions& options) {
  return Meter(Verb::kBarrier,
               [&] { return inner_->Barrier(request, options); });
}

absl::StatusOr<ServerStatus> MeteredConnection::DescribeServer(
    const CallOptions& options) {
  return Meter(Verb::kDescribeServer,
               [&] { return inner_->DescribeServer(options); });
}

}  // namespace tensorkv
