// A Connection to a store in this process, without any network.

#ifndef TENSORKV_CLIENT_LOCAL_LOCAL_CONNECTION_H_
#define TENSORKV_CLIENT_LOCAL_LOCAL_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/alarms.h"
#include "client/connection.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/store/memory_tensor_store.h"

namespace tensorkv {

struct LocalConnectionOptions {
  MemoryTensorStoreOptions store;
  // Threads of one update; 0 means one per core.
  int num_threads = 0;
};

// Owns a store on the CPU and calls it directly. Thread-safe. Limits are those
// of a server by default, except that no message bounds the size of a call.
//
//   Client client(std::make_unique<LocalConnection>(), {.target = "local"});
//
// Tensors are shared with the store, not copied: do not write into a tensor
// that was passed to a call or came from one. The connection outlives them.
class LocalConnection final : public Connection {
 public:
  LocalConnection() : LocalConnection(LocalConnectionOptions()) {}
  explicit LocalConnection(const LocalConnectionOptions& options);

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
  const MemoryTensorStoreOptions store_options_;
  const int64_t start_unix_seconds_;
  // In the order in which they use each other.
  CpuBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_LOCAL_LOCAL_CONNECTION_H_
