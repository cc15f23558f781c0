// Random values of every type in requests.h, all fields filled, for tests.

#ifndef TENSORKV_TESTS_CONTRACT_RANDOM_REQUESTS_H_
#define TENSORKV_TESTS_CONTRACT_RANDOM_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "contract/requests.h"

namespace tensorkv::testing {

// Draws the same values for the same seed. Values are such as the codec
// accepts; the store need not accept them.
class RandomRequests {
 public:
  explicit RandomRequests(uint64_t seed) : random_(seed) {}

  void Draw(Tensor& tensor);
  void Draw(InitRequest& request);
  void Draw(InitReply& reply);
  void Draw(PushRequest& request);
  void Draw(PushReply& reply);
  void Draw(PullRequest& request);
  void Draw(PullReply& reply);
  // With data, which the wire leaves out.
  void Draw(PushRowsRequest& request);
  void Draw(PullRowsRequest& request);
  void Draw(InitManifest& manifest);
  void Draw(PushManifest& manifest);
  void Draw(PullStreamRequest& request);
  void Draw(DeleteRequest& request);
  void Draw(DeleteReply& reply);
  void Draw(ListRequest& request);
  void Draw(ListReply& reply);
  void Draw(StatRequest& request);
  void Draw(StatReply& reply);
  void Draw(RuleSpec& rule);
  void Draw(ScheduleSpec& schedule);
  void Draw(Multipliers& multipliers);
  void Draw(CreateNamespaceRequest& request);
  void Draw(CreateNamespaceReply& reply);
  void Draw(ListNamespacesRequest& request);
  void Draw(ListNamespacesReply& reply);
  void Draw(NamespaceStatus& status);
  void Draw(SetRuleRequest& request);
  void Draw(UnsetRuleRequest& request);
  void Draw(SetHyperparametersRequest& request);
  void Draw(WorkerStatus& status);
  void Draw(JoinRequest& request);
  void Draw(JoinReply& reply);
  void Draw(KeepAliveRequest& request);
  void Draw(KeepAliveReply& reply);
  void Draw(LeaveRequest& request);
  void Draw(BarrierRequest& request);
  void Draw(CheckpointStatus& status);
  void Draw(DescribeClusterReply& reply);
  void Draw(ResizeClusterRequest& request);
  void Draw(ResizeClusterReply& reply);
  void Draw(MovePartitionsRequest& request);
  void Draw(SaveCheckpointRequest& request);
  void Draw(RestoreCheckpointRequest& request);
  void Draw(ListCheckpointsReply& reply);
  void Draw(DeleteCheckpointRequest& request) { Draw(request.name); }
  void Draw(VerifyCheckpointRequest& request) { Draw(request.name); }
  void Draw(ServerStatus& status);
  void Draw(DeviceBudget& budget);
  void Draw(MemoryUse& use);
  void Draw(DeviceMemoryUse& memory);

 private:
  void Draw(uint64_t& number);
  void Draw(uint32_t& number);
  void Draw(int64_t& number);
  void Draw(bool& flag);
  void Draw(double& number);
  void Draw(std::string& text);
  void Draw(DType& dtype);
  void Draw(Shape& shape);
  void Draw(OnExisting& on_existing);
  void Draw(Mode& mode);
  void Draw(absl::Duration& duration);
  void Draw(Hyperparameters& hyperparameters);
  void Draw(CallId& call_id);
  void Draw(Worker& worker);
  void Draw(InitEntry& entry);
  void Draw(PushEntry& entry);
  void Draw(RefPtr<const Encoding>& encoding);
  void Draw(RefPtr<const RowIds>& rows);
  void Draw(PushResult& result);
  void Draw(PullEntry& entry);
  void Draw(Value& value);
  void Draw(Stripe& stripe);
  void Draw(KeyStatus& status);
  void Draw(NamespaceConfig& config);
  void Draw(OnWorkerLoss& on_worker_loss);
  void Draw(GradientGuard& guard);
  void Draw(GuardCounts& counts);
  void Draw(WaitStatus& status);
  void Draw(RuleBinding& binding);
  void Draw(MultipliersBinding& binding);

  template <typename T>
  void Draw(std::optional<T>& value);
  template <typename T>
  void Draw(std::vector<T>& values);
  template <typename T, typename... Rest>
  void DrawAll(T& first, Rest&... rest);

  // 0 to `bound` - 1.
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  std::mt19937_64 random_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACT_RANDOM_REQUESTS_H_
