// Equality of the values in requests.h, for tests. Tensors are equal if their
// dtypes, shapes and bytes are.

#ifndef TENSORKV_TESTS_CONTRACT_REQUEST_EQUALITY_H_
#define TENSORKV_TESTS_CONTRACT_REQUEST_EQUALITY_H_

#include <tuple>

#include "contract/requests.h"

namespace tensorkv {

inline bool operator==(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         absl::string_view(a.data(), a.size_bytes()) ==
             absl::string_view(b.data(), b.size_bytes());
}

inline auto Fields(const CallId& v) {
  return std::tie(v.client_id, v.sequence);
}
inline auto Fields(const Worker& v) { return std::tie(v.rank, v.epoch); }
inline auto Fields(const InitEntry& v) { return std::tie(v.key, v.tensor); }
inline auto Fields(const InitRequest& v) {
  return std::tie(v.name_space, v.call_id, v.namespace_uid, v.on_existing,
                  v.entries);
}
inline auto Fields(const InitReply& v) { return std::tie(v.versions); }
inline auto Fields(const PushEntry& v) {
  return std::make_tuple(
      v.key, v.skip, v.tensor, v.dtype(), v.shape(),
      v.encoding ? v.encoding->packing() : Packing{.count = UINT64_MAX},
      v.rows ? v.rows->tensor() : Tensor(), v.updates_all_rows, v.weight);
}
inline auto Fields(const PushRequest& v) {
  return std::tie(v.name_space, v.call_id, v.namespace_uid, v.worker, v.step,
                  v.max_reply_bytes, v.reply_dtype, v.entries);
}
inline auto Fields(const PushResult& v) {
  return std::tie(v.version, v.step, v.repeated);
}
inline auto Fields(const PushReply& v) { return std::tie(v.results); }
inline auto Fields(const PullEntry& v) {
  return std::make_tuple(v.key, v.min_version,
                         v.rows ? v.rows->tensor() : Tensor());
}
inline auto Fields(const PullRequest& v) {
  return std::tie(v.name_space, v.namespace_uid, v.worker, v.wait_for_keys,
                  v.max_reply_bytes, v.entries);
}
inline auto Fields(const Value& v) {
  return std::tie(v.version, v.tensor, v.num_contributions);
}
inline auto Fields(const PullReply& v) { return std::tie(v.values); }
inline auto Fields(const InitManifest& v) {
  return std::tie(v.request, v.stripe);
}
inline auto Fields(const PushManifest& v) {
  return std::tie(v.request, v.stripe);
}
inline auto Fields(const PullStreamRequest& v) {
  return std::tie(v.request, v.stripe, v.max_part_bytes, v.takes_batches);
}
inline auto Fields(const DeleteRequest& v) {
  return std::tie(v.name_space, v.call_id, v.namespace_uid, v.keys,
                  v.allow_missing);
}
inline auto Fields(const DeleteReply& v) { return std::tie(v.num_deleted); }
inline auto Fields(const ListRequest& v) {
  return std::tie(v.name_space, v.prefix, v.page_size, v.page_token);
}
inline auto Fields(const KeyStatus& v) {
  return std::tie(v.key, v.dtype, v.shape, v.version, v.value_bytes,
                  v.state_bytes, v.rule, v.update_count, v.multipliers,
                  v.learning_rate, v.weight_decay, v.digest);
}
inline auto Fields(const ListReply& v) {
  return std::tie(v.keys, v.next_page_token, v.placement_version);
}
inline auto Fields(const StatRequest& v) {
  return std::tie(v.name_space, v.keys, v.with_digest);
}
inline auto Fields(const StatReply& v) { return std::tie(v.keys); }
inline auto Fields(const RuleBinding& v) {
  return std::tie(v.key_pattern, v.rule);
}
inline auto Fields(const MultipliersBinding& v) {
  return std::tie(v.key_pattern, v.multipliers);
}
inline auto Fields(const MemoryUse& v) {
  return std::tie(v.values, v.state, v.contributions, v.metadata);
}
inline auto Fields(const WorkerStatus& v) {
  return std::tie(v.name, v.worker, v.is_live, v.step, v.lease_remaining,
                  v.has_left);
}
inline auto Fields(const WaitStatus& v) {
  return std::tie(v.reason, v.calls_waiting, v.calls_ended, v.waited);
}
inline auto Fields(const NamespaceStatus& v) {
  return std::tie(v.name, v.uid, v.revision, v.config, v.rules, v.num_keys,
                  v.memory, v.device_memory, v.updates_applied, v.rounds_open,
                  v.rounds_closed, v.rounds_failed, v.calls_waiting,
                  v.live_workers, v.workers, v.lease_expirations,
                  v.contributions_late, v.contributions_duplicate,
                  v.contributions_fenced, v.slowest_lag, v.waits, v.multipliers,
                  v.guard_counts);
}
inline auto Fields(const CreateNamespaceRequest& v) {
  return std::tie(v.name_space, v.config, v.on_existing, v.call_id);
}
inline auto Fields(const CreateNamespaceReply& v) { return std::tie(v.uid); }
inline auto Fields(const ListNamespacesRequest& v) {
  return std::tie(v.page_size, v.page_token);
}
inline auto Fields(const ListNamespacesReply& v) {
  return std::tie(v.namespaces, v.next_page_token);
}
inline auto Fields(const UnsetRuleRequest& v) {
  return std::tie(v.name_space, v.call_id, v.key_pattern, v.multipliers);
}
inline auto Fields(const SetRuleRequest& v) {
  return std::tie(v.name_space, v.key_pattern, v.rule, v.multipliers,
                  v.call_id);
}
inline auto Fields(const SetHyperparametersRequest& v) {
  return std::tie(v.name_space, v.key_pattern, v.hyperparameters, v.call_id);
}
inline auto Fields(const JoinRequest& v) {
  return std::tie(v.name_space, v.call_id, v.namespace_uid, v.worker_name,
                  v.lease, v.replaces_epoch, v.rank);
}
inline auto Fields(const JoinReply& v) {
  return std::tie(v.worker, v.num_workers, v.lease, v.server_incarnation,
                  v.next_step, v.was_lost);
}
inline auto Fields(const KeepAliveRequest& v) {
  return std::tie(v.name_space, v.worker);
}
inline auto Fields(const KeepAliveReply& v) {
  return std::tie(v.lease_remaining, v.num_workers, v.next_step);
}
inline auto Fields(const LeaveRequest& v) {
  return std::tie(v.name_space, v.worker, v.call_id, v.is_lost, v.step);
}
inline auto Fields(const BarrierRequest& v) {
  return std::tie(v.name_space, v.call_id, v.namespace_uid, v.worker,
                  v.barrier);
}
inline auto Fields(const CheckpointStatus& v) {
  return std::tie(v.name, v.create_time, v.bytes, v.num_keys, v.namespaces,
                  v.sequence, v.automatic, v.written_bytes);
}
inline auto Fields(const SaveCheckpointRequest& v) {
  return std::tie(v.name, v.namespaces);
}
inline auto Fields(const RestoreCheckpointRequest& v) {
  return std::tie(v.name, v.namespaces, v.as_namespace, v.on_existing);
}
inline auto Fields(const ListCheckpointsReply& v) {
  return std::tie(v.checkpoints);
}
inline auto Fields(const DeleteCheckpointRequest& v) {
  return std::tie(v.name);
}
inline auto Fields(const VerifyCheckpointRequest& v) {
  return std::tie(v.name);
}
inline auto Fields(const ServerStatus& v) {
  return std::tie(v.version, v.incarnation, v.start_unix_seconds, v.devices,
                  v.budget_bytes, v.used_bytes, v.max_message_bytes,
                  v.max_entries, v.device_budgets);
}
inline auto Fields(const DescribeClusterReply& v) {
  return std::tie(v.server_name, v.placement);
}
inline auto Fields(const ResizeClusterRequest& v) {
  return std::tie(v.add, v.remove);
}
inline auto Fields(const ResizeClusterReply& v) {
  return std::tie(v.servers, v.partitions_to_move);
}
inline auto Fields(const MovePartitionsRequest& v) {
  return std::tie(v.from, v.move, v.step, v.partitions, v.num_partitions,
                  v.part, v.data, v.placement_version, v.registration);
}
inline auto Fields(const DeviceBudget& v) {
  return std::tie(v.device, v.budget_bytes, v.used_bytes);
}
inline auto Fields(const DeviceMemoryUse& v) {
  return std::tie(v.device, v.memory);
}

template <typename T>
requires requires(const T& value) { Fields(value); }
bool operator==(const T& a, const T& b) { return Fields(a) == Fields(b); }

}  // namespace tensorkv

#endif  // TENSORKV_TESTS_CONTRACT_REQUEST_EQUALITY_H_
