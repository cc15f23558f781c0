// Repeats calls that a server was not there to answer.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRYING_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_RETRYING_CONNECTION_H_

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/internal/retry_loop.h"

namespace tensorkv {

// Adds retries to a connection. Thread-safe.
//
// Repeats on Unavailable, within the call's timeout and ten minutes, every call
// with a call_id, which the server applies once; of the others what has the
// same outcome when done twice: all calls that only read, KeepAlive, Init and
// CreateNamespace with KEEP, Delete with allow_missing (whose count is then
// that of the last attempt), SetRule and SetHyperparameters. Any other call is
// made once: if it fails with Unavailable, it may or may not have taken effect.
class RetryingConnection final : public Connection {
 public:
  RetryingConnection(std::unique_ptr<Connection> inner, const Backoff& backoff,
                     RetryEnvironment environment)
      : inner_(std::move(inner)),
        backoff_(backoff),
        environment_(std::move(environment)) {}

  absl::StatusOr<InitReply> Init(const InitRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<PushReply> Push(const PushRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                     const CallOptions& options) override;
  absl::StatusOr<DeleteReply> Delete(const DeleteRequest& request,
                                     const CallOptions& options) override;
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallOptions& options) override;

  absl::StatusOr<CreateNamespaceReply> CreateNamespace(
      const CreateNamespaceRequest& request,
      const CallOptions& options) override;
  absl::StatusOr<NamespaceStatus> DescribeNamespace(
      const std::string& name_space, const CallOptions& options) override;
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      const CallOptions& options) override;
  absl::Status DeleteNamespace(const std::string& name_space,
                               const CallOptions& options) override;
  absl::Status SetRule(const SetRuleRequest& request,
                       const CallOptions& options) override;
  absl::Status UnsetRule(const UnsetRuleRequest& request,
                         const CallOptions& options) override;
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request,
      const CallOptions& options) override;

  absl::StatusOr<JoinReply> Join(const JoinRequest& request,
                                 const CallOptions& options) override;
  absl::StatusOr<KeepAliveReply> KeepAlive(const KeepAliveRequest& request,
                                           const CallOptions& options) override;
  absl::Status Leave(const LeaveRequest& request,
                     const CallOptions& options) override;
  absl::Status Barrier(const BarrierRequest& request,
                       const CallOptions& options) override;

  absl::StatusOr<ServerStatus> DescribeServer(
      const CallOptions& options) override;

 private:
  // `call(options)`, repeated; options carry the time left.
  template <typename Call>
  std::invoke_result_t<Call, const CallOptions&> Retry(
      const CallOptions& options, Call call);

  const std::unique_ptr<Connection> inner_;
  const Backoff backoff_;
  const RetryEnvironment environment_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRYING_CONNECTION_H_
