// Counts and times the calls of a connection.

#ifndef TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"
#include "client/connection.h"
#include "client/internal/client_metrics.h"

namespace tensorkv {

// Adds metrics to a connection. Thread-safe. `now` is a monotonic clock.
class MeteredConnection final : public Connection {
 public:
  MeteredConnection(std::unique_ptr<Connection> inner,
                    std::shared_ptr<prometheus::Registry> registry,
                    std::function<absl::Duration()> now);

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
  // `call()`, counted and timed as `verb`.
  template <typename Call>
  std::invoke_result_t<Call> Meter(Verb verb, Call call);

  const std::unique_ptr<Connection> inner_;
  const std::function<absl::Duration()> now_;
  ClientMetrics metrics_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_METERED_CONNECTION_H_
