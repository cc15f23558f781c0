// A Connection whose answers a test writes down beforehand.

#ifndef TENSORKV_TESTS_CLIENT_SCRIPTED_CONNECTION_H_
#define TENSORKV_TESTS_CLIENT_SCRIPTED_CONNECTION_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"

namespace tensorkv::testing {

// What a ScriptedConnection was asked and what it answers. Outlives the
// connection, which the code under test owns.
struct Script {
  // The status of each call, in order; OK after the last.
  std::deque<absl::Status> statuses;
  // The replies of calls that are OK.
  InitReply init_reply;
  PushReply push_reply;
  PullReply pull_reply;
  DeleteReply delete_reply;
  ListReply list_reply;
  StatReply stat_reply;
  NamespaceStatus namespace_reply;
  RuleSpec rule_reply;
  CreateNamespaceReply create_reply;
  JoinReply join_reply;
  KeepAliveReply keep_alive_reply;
  ServerStatus server_reply;
  // Runs inside each call.
  std::function<void()> during_call = [] {};

  // The verbs called and their timeouts, in order.
  std::vector<std::string> verbs;
  std::vector<absl::Duration> timeouts;
  // The latest request of each kind.
  InitRequest init;
  PushRequest push;
  PullRequest pull;
  DeleteRequest remove;
  ListRequest list;
  StatRequest stat;
  CreateNamespaceRequest create;
  SetRuleRequest set_rule;
  UnsetRuleRequest unset_rule;
  SetHyperparametersRequest tune;
  JoinRequest join;
  KeepAliveRequest keep_alive;
  LeaveRequest leave;
  BarrierRequest barrier;
  std::string name_space;
};

// Thread-compatible.
class ScriptedConnection final : public Connection {
 public:
  explicit ScriptedConnection(Script& script) : script_(script) {}

  absl::StatusOr<InitReply> Init(const InitRequest& request,
                                 const CallOptions& options) override {
    script_.init = request;
    return Answer("Init", options, script_.init_reply);
  }
  absl::StatusOr<PushReply> Push(const PushRequest& request,
                                 const CallOptions& options) override {
    script_.push = request;
    return Answer("Push", options, script_.push_reply);
  }
  absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                 const CallOptions& options) override {
    script_.pull = request;
    return Answer("Pull", options, script_.pull_reply);
  }
  absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                     const CallOptions& options) override {
    script_.push = request;
    return Answer("PushPull", options, script_.pull_reply);
  }
  absl::StatusOr<DeleteReply> Delete(const DeleteRequest& request,
                                     const CallOptions& options) override {
    script_.remove = request;
    return Answer("Delete", options, script_.delete_reply);
  }
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallOptions& options) override {
    script_.list = request;
    return Answer("List", options, script_.list_reply);
  }
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallOptions& options) override {
    script_.stat = request;
    return Answer("Stat", options, script_.stat_reply);
  }
  absl::StatusOr<CreateNamespaceReply> CreateNamespace(
      const CreateNamespaceRequest& request,
      const CallOptions& options) override {
    script_.create = request;
    return Answer("CreateNamespace", options, script_.create_reply);
  }
  absl::StatusOr<NamespaceStatus> DescribeNamespace(
      const std::string& name_space, const CallOptions& options) override {
    script_.name_space = name_space;
    return Answer("DescribeNamespace", options, script_.namespace_reply);
  }
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      const CallOptions& options) override {
    return Answer("ListNamespaces", options,
                  std::vector<NamespaceStatus>{script_.namespace_reply});
  }
  absl::Status DeleteNamespace(const std::string& name_space,
                               const CallOptions& options) override {
    script_.name_space = name_space;
    return Next("DeleteNamespace", options);
  }
  absl::Status SetRule(const SetRuleRequest& request,
                       const CallOptions& options) override {
    script_.set_rule = request;
    return Next("SetRule", options);
  }
  absl::Status UnsetRule(const UnsetRuleRequest& request,
                         const CallOptions& options) override {
    script_.unset_rule = request;
    return Next("UnsetRule", options);
  }
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request,
      const CallOptions& options) override {
    script_.tune = request;
    return Answer("SetHyperparameters", options, script_.rule_reply);
  }
  absl::StatusOr<JoinReply> Join(const JoinRequest& request,
                                 const CallOptions& options) override {
    script_.join = request;
    return Answer("Join", options, script_.join_reply);
  }
  absl::StatusOr<KeepAliveReply> KeepAlive(
      const KeepAliveRequest& request, const CallOptions& options) override {
    script_.keep_alive = request;
    return Answer("KeepAlive", options, script_.keep_alive_reply);
  }
  absl::Status Leave(const LeaveRequest& request,
                     const CallOptions& options) override {
    script_.leave = request;
    return Next("Leave", options);
  }
  absl::Status Barrier(const BarrierRequest& request,
                       const CallOptions& options) override {
    script_.barrier = request;
    return Next("Barrier", options);
  }
  absl::StatusOr<ServerStatus> DescribeServer(
      const CallOptions& options) override {
    return Answer("DescribeServer", options, script_.server_reply);
  }

 private:
  absl::Status Next(const char* verb, const CallOptions& options) {
    script_.verbs.push_back(verb);
    script_.timeouts.push_back(options.timeout);
    script_.during_call();
    if (script_.statuses.empty()) return absl::OkStatus();
    absl::Status status = script_.statuses.front();
    script_.statuses.pop_front();
    return status;
  }

  template <typename Reply>
  absl::StatusOr<Reply> Answer(const char* verb, const CallOptions& options,
                               Reply reply) {
    absl::Status status = Next(verb, options);
    if (!status.ok()) return status;
    return reply;
  }

  Script& script_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_SCRIPTED_CONNECTION_H_
