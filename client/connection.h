// The seam between the client's verbs and whatever answers them.

#ifndef TENSORKV_CLIENT_CONNECTION_H_
#define TENSORKV_CLIENT_CONNECTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/requests.h"

namespace tensorkv {

// Bounds of one call.
struct CallOptions {
  // DeadlineExceeded when it has passed.
  absl::Duration timeout = absl::Seconds(30);
};

// Carries calls to a store and brings back its answers: over gRPC, or to a
// store in this process. Thread-safe; calls block until their answer or
// deadline. Verbs and errors as in proto/tensorkv/v1/; Unavailable where no
// server answers.
//
// Decorators add retries and metrics. One method per verb, so that each
// decorator sees every call with its types.
class Connection {
 public:
  virtual ~Connection() = default;

  virtual absl::StatusOr<InitReply> Init(const InitRequest& request,
                                         const CallOptions& options) = 0;
  virtual absl::StatusOr<PushReply> Push(const PushRequest& request,
                                         const CallOptions& options) = 0;
  virtual absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                         const CallOptions& options) = 0;
  virtual absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                             const CallOptions& options) = 0;
  virtual absl::StatusOr<DeleteReply> Delete(const DeleteRequest& request,
                                             const CallOptions& options) = 0;
  virtual absl::StatusOr<ListReply> List(const ListRequest& request,
                                         const CallOptions& options) = 0;
  virtual absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                         const CallOptions& options) = 0;

  virtual absl::StatusOr<CreateNamespaceReply> CreateNamespace(
      const CreateNamespaceRequest& request, const CallOptions& options) = 0;
  virtual absl::StatusOr<NamespaceStatus> DescribeNamespace(
      const std::string& name_space, const CallOptions& options) = 0;
  virtual absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      const CallOptions& options) = 0;
  virtual absl::Status DeleteNamespace(const std::string& name_space,
                                       const CallOptions& options) = 0;
  virtual absl::Status SetRule(const SetRuleRequest& request,
                               const CallOptions& options) = 0;
  virtual absl::Status UnsetRule(const UnsetRuleRequest& request,
                                 const CallOptions& options) = 0;
  virtual absl::StatusOr<RuleSpec> SetHyperparameters(
      const SetHyperparametersRequest& request, const CallOptions& options) = 0;

  virtual absl::StatusOr<JoinReply> Join(const JoinRequest& request,
                                         const CallOptions& options) = 0;
  virtual absl::StatusOr<KeepAliveReply> KeepAlive(
      const KeepAliveRequest& request, const CallOptions& options) = 0;
  virtual absl::Status Leave(const LeaveRequest& request,
                             const CallOptions& options) = 0;
  virtual absl::Status Barrier(const BarrierRequest& request,
                               const CallOptions& options) = 0;

  virtual absl::StatusOr<ServerStatus> DescribeServer(
      const CallOptions& options) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CONNECTION_H_
