// One connection for many owners.

#ifndef TENSORKV_TESTS_CLIENT_SHARED_CONNECTION_H_
#define TENSORKV_TESTS_CLIENT_SHARED_CONNECTION_H_

#include <string>
#include <vector>

#include "client/connection.h"

namespace tensorkv::testing {

// Passes every call on to a connection that it does not own and that outlives
// it. As thread-safe as that connection. Decorators override some.
class SharedConnection : public Connection {
 public:
  explicit SharedConnection(Connection& store) : store_(store) {}

  absl::StatusOr<InitReply> Init(const InitRequest& request,
                                 const CallOptions& options) override {
    return store_.Init(request, options);
  }
  absl::StatusOr<PushReply> Push(const PushRequest& request,
                                 const CallOptions& options) override {
    return store_.Push(request, options);
  }
  absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                 const CallOptions& options) override {
    return store_.Pull(request, options);
  }
  absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                     const CallOptions& options) override {
    return store_.PushPull(request, options);
  }
  absl::StatusOr<DeleteReply> Delete(const DeleteRequest& request,
                                     const CallOptions& options) override {
    return store_.Delete(request, options);
  }
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallOptions& options) override {
    return store_.List(request, options);
  }
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallOptions& options) override {
    return store_.Stat(request, options);
  }
  absl::StatusOr<CreateNamespaceReply> CreateNamespace(
      const CreateNamespaceRequest& request,
      const CallOptions& options) override {
    return store_.CreateNamespace(request, options);
  }
  absl::StatusOr<NamespaceStatus> DescribeNamespace(
      const std::string& name_space, const CallOptions& options) override {
    return store_.DescribeNamespace(name_space, options);
  }
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      const CallOptions& options) override {
    return store_.ListNamespaces(options);
  }
  absl::Status DeleteNamespace(const std::string& name_space,
                               const CallOptions& options) override {
    return store_.DeleteNamespace(name_space, options);
  }
  absl::Status SetRule(const SetRuleRequest& request,
                       const CallOptions& options) override {
    return store_.SetRule(request, options);
  }
  absl::Status UnsetRule(const UnsetRuleRequest& request,
                         const CallOptions& options) override {
    return store_.UnsetRule(request, options);
  }
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request,
      const CallOptions& options) override {
    return store_.SetHyperparameters(request, options);
  }
  absl::StatusOr<JoinReply> Join(const JoinRequest& request,
                                 const CallOptions& options) override {
    return store_.Join(request, options);
  }
  absl::StatusOr<KeepAliveReply> KeepAlive(
      const KeepAliveRequest& request, const CallOptions& options) override {
    return store_.KeepAlive(request, options);
  }
  absl::Status Leave(const LeaveRequest& request,
                     const CallOptions& options) override {
    return store_.Leave(request, options);
  }
  absl::Status Barrier(const BarrierRequest& request,
                       const CallOptions& options) override {
    return store_.Barrier(request, options);
  }
  absl::StatusOr<ServerStatus> DescribeServer(
      const CallOptions& options) override {
    return store_.DescribeServer(options);
  }

 private:
  Connection& store_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_SHARED_CONNECTION_H_
