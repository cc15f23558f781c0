#include "client/local/local_connection.h"

#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "base/answer.h"
#include "service/store/tensor_store.h"

namespace tensorkv {
namespace {

// Starts a call, which takes a ReplyCallback, and waits for its reply.
template <typename Reply, typename Start>
absl::StatusOr<Reply> Await(Start start) {
  const Answer<absl::StatusOr<Reply>> answer;
  start(
      [answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); });
  return answer.Wait();
}

int NumThreads(const LocalConnectionOptions& options) {
  if (options.num_threads > 0) return options.num_threads;
  return static_cast<int>(std::thread::hardware_concurrency());
}

CallContext ContextOf(const CallOptions& options) {
  return {.timeout = options.timeout};
}

}  // namespace

LocalConnection::LocalConnection(const LocalConnectionOptions& options)
    : store_options_(options.store),
      start_unix_seconds_(absl::ToUnixSeconds(absl::Now())),
      backend_(NumThreads(options)),
      store_(options.store, &backend_, &alarms_) {}

absl::StatusOr<InitReply> LocalConnection::Init(const InitRequest& request,
                                                const CallOptions& options) {
  return Await<InitReply>([&](ReplyCallback<InitReply> done) {
    store_.Init(request, ContextOf(options), std::move(done));
  });
}

absl::StatusOr<PushReply> LocalConnection::Push(const PushRequest& request,
                                                const CallOptions& options) {
  return Await<PushReply>([&](ReplyCallback<PushReply> done) {
    store_.Push(request, ContextOf(options), std::move(done));
  });
}

absl::StatusOr<PullReply> LocalConnection::Pull(const PullRequest& request,
                                                const CallOptions& options) {
  return Await<PullReply>([&](ReplyCallback<PullReply> done) {
    store_.Pull(request, ContextOf(options), std::move(done));
  });
}

absl::StatusOr<PullReply> LocalConnection::PushPull(
    const PushRequest& request, const CallOptions& options) {
  return Await<PullReply>([&](ReplyCallback<PullReply> done) {
    store_.PushPull(request, ContextOf(options), std::move(done));
  });
}

absl::StatusOr<DeleteReply> LocalConnection::Delete(
    const DeleteRequest& request, const CallOptions& options) {
  return store_.Delete(request, ContextOf(options));
}

absl::StatusOr<ListReply> LocalConnection::List(const ListRequest& request,
                                                const CallOptions& options) {
  return store_.List(request, ContextOf(options));
}

absl::StatusOr<StatReply> LocalConnection::Stat(const StatRequest& request,
                                                const CallOptions& options) {
  return store_.Stat(request, ContextOf(options));
}

absl::StatusOr<CreateNamespaceReply> LocalConnection::CreateNamespace(
    const CreateNamespaceRequest& request, const CallOptions& options) {
  return store_.CreateNamespace(request, ContextOf(options));
}

absl::StatusOr<NamespaceStatus> LocalConnection::DescribeNamespace(
    const std::string& name_space, const CallOptions& options) {
  return store_.DescribeNamespace(name_space, ContextOf(options));
}

absl::StatusOr<std::vector<NamespaceStatus>> LocalConnection::ListNamespaces(
    const CallOptions& options) {
  return store_.ListNamespaces(ContextOf(options));
}

absl::Status LocalConnection::DeleteNamespace(const std::string& name_space,
                                              const CallOptions& options) {
  return store_.DeleteNamespace(name_space, ContextOf(options));
}

absl::Status LocalConnection::SetRule(const SetRuleRequest& request,
                                      const CallOptions& options) {
  return store_.SetRule(request, ContextOf(options));
}

absl::Status LocalConnection::UnsetRule(const UnsetRuleRequest& request,
                                        const CallOptions& options) {
  return store_.UnsetRule(request, ContextOf(options));
}

absl::StatusOr<RuleSpec> LocalConnection::SetHyperparameters(
    const SetHyperparametersRequest& request, const CallOptions& options) {
  return store_.SetHyperparameters(request, ContextOf(options));
}

absl::StatusOr<JoinReply> LocalConnection::Join(const JoinRequest& request,
                                                const CallOptions& options) {
  return store_.Join(request, ContextOf(options));
}

absl::StatusOr<KeepAliveReply> LocalConnection::KeepAlive(
    const KeepAliveRequest& request, const CallOptions& options) {
  return store_.KeepAlive(request, ContextOf(options));
}

absl::Status LocalConnection::Leave(const LeaveRequest& request,
                                    const CallOptions& options) {
  return store_.Leave(request, ContextOf(options));
}

absl::Status LocalConnection::Barrier(const BarrierRequest& request,
                                      const CallOptions& options) {
  return Await<BarrierReply>([&](ReplyCallback<BarrierReply> done) {
           store_.Barrier(request, ContextOf(options), std::move(done));
         })
      .status();
}

absl::StatusOr<ServerStatus> LocalConnection::DescribeServer(
    const CallOptions& options) {
  ServerStatus status;
  status.version = "local";
  status.start_unix_seconds = start_unix_seconds_;
  status.devices = {std::string(backend_.name())};
  status.budget_bytes = store_.budgets().host()->limit_bytes();
  status.used_bytes = store_.used_bytes();
  status.max_entries = store_options_.max_entries;
  return status;
}

}  // namespace tensorkv
