#include "tests/contract/random_requests.h"

#include <cmath>
#include <iterator>
#include <utility>

namespace tensorkv::testing {

template <typename T>
void RandomRequests::Draw(std::optional<T>& value) {
  value.reset();
  if (Below(2) == 0) Draw(value.emplace());
}

template <typename T>
void RandomRequests::Draw(std::vector<T>& values) {
  values.resize(Below(4));
  for (size_t i = 0; i < values.size(); ++i) {
    // Calls have long runs of tensors of one type.
    if constexpr (requires { values[i].tensor; }) {
      if (i > 0 && Below(2) == 0) {
        values[i] = values[i - 1];
        continue;
      }
    }
    Draw(values[i]);
  }
}

template <typename T, typename... Rest>
void RandomRequests::DrawAll(T& first, Rest&... rest) {
  Draw(first);
  if constexpr (sizeof...(rest) > 0) DrawAll(rest...);
}

// Zero, which the wire leaves out, more often than by chance.
void RandomRequests::Draw(uint64_t& number) {
  number = Below(4) == 0 ? 0 : random_() >> Below(64);
}

void RandomRequests::Draw(uint32_t& number) {
  uint64_t wide = 0;
  Draw(wide);
  number = static_cast<uint32_t>(wide);
}

void RandomRequests::Draw(int64_t& number) {
  uint64_t bits = 0;
  Draw(bits);
  number = static_cast<int64_t>(bits);
}

void RandomRequests::Draw(bool& flag) { flag = Below(2) == 0; }

void RandomRequests::Draw(double& number) {
  number = std::ldexp(static_cast<double>(1 + Below(1000)),
                      static_cast<int>(Below(40)) - 20);
}

void RandomRequests::Draw(std::string& text) {
  static constexpr const char* kLetters[] = {
      "a", "b", ".", "/", " ", "\xc3\xa9", "\xe2\x88\x91", "\"", "%"};
  text.clear();
  for (uint64_t length = Below(40); length > 0; --length) {
    text += kLetters[Below(std::size(kLetters))];
  }
}

void RandomRequests::Draw(DType& dtype) {
  dtype = kAllDTypes[Below(std::size(kAllDTypes))];
}

void RandomRequests::Draw(Shape& shape) {
  std::vector<int64_t> dimensions(Below(Shape::kMaxRank + 1));
  for (int64_t& dimension : dimensions) {
    dimension = static_cast<int64_t>(Below(4));
  }
  shape = *Shape::Create(dimensions);
}

void RandomRequests::Draw(Tensor& tensor) {
  DType dtype;
  Shape shape;
  DrawAll(dtype, shape);
  tensor = *Tensor::Allocate(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.size_bytes(); ++i) {
    const uint64_t bits = dtype == DType::kBool ? Below(2) : random_();
    tensor.mutable_data()[i] = static_cast<char>(bits);
  }
}

void RandomRequests::Draw(OnExisting& on_existing) {
  on_existing = static_cast<OnExisting>(Below(3));
}

void RandomRequests::Draw(Mode& mode) { mode = static_cast<Mode>(Below(3)); }

void RandomRequests::Draw(Hyperparameters& hyperparameters) {
  hyperparameters.clear();
  std::vector<std::string> names;
  Draw(names);
  for (const std::string& name : names) {
    hyperparameters[name] = std::normal_distribution<double>()(random_);
  }
}

void RandomRequests::Draw(RuleSpec& rule) {
  DrawAll(rule.name, rule.hyperparameters, rule.keep_master, rule.schedule,
          rule.expression);
}

void RandomRequests::Draw(ScheduleSpec& schedule) {
  DrawAll(schedule.name, schedule.arguments, schedule.steps);
}

void RandomRequests::Draw(Multipliers& multipliers) {
  std::normal_distribution<double> numbers;
  multipliers = {numbers(random_), numbers(random_)};
}

void RandomRequests::Draw(CallId& call_id) {
  call_id.client_id.resize(Below(65));
  for (char& byte : call_id.client_id) byte = static_cast<char>(random_());
  Draw(call_id.sequence);
}

void RandomRequests::Draw(Worker& worker) {
  DrawAll(worker.rank, worker.epoch);
}

void RandomRequests::Draw(InitEntry& entry) {
  DrawAll(entry.key, entry.tensor, entry.state);
}

void RandomRequests::Draw(InitRequest& request) {
  DrawAll(request.name_space, request.call_id, request.namespace_uid,
          request.on_existing, request.entries);
}

void RandomRequests::Draw(InitReply& reply) { Draw(reply.versions); }

void RandomRequests::Draw(PushEntry& entry) {
  DrawAll(entry.key, entry.skip);
  entry.tensor = Tensor();
  entry.weight = 0;
  if (entry.skip) return;
  if (Below(2) == 0) Draw(entry.weight);
  Draw(entry.encoding);
  if (!entry.encoding) return Draw(entry.tensor);
  entry.tensor =
      *Tensor::Allocate(DType::kU8, {entry.encoding->payload_bytes()});
  for (uint8_t& byte : entry.tensor.mutable_elements<uint8_t>()) {
    byte = static_cast<uint8_t>(random_());
  }
}

// None, or any that is valid.
void RandomRequests::Draw(RefPtr<const Encoding>& encoding) {
  constexpr uint8_t kElements[] = {5, 6, 7};
  Shape shape;
  Draw(shape);
  const auto num_elements = static_cast<uint64_t>(shape.num_elements());
  DType dtype = DType::kF32;
  Packing packing = {.kind = static_cast<PackingKind>(Below(7))};
  switch (packing.kind) {
    case PackingKind::kTwoBit:
    case PackingKind::kOneBit:
      packing.scale = std::ldexp(1.0f, static_cast<int>(Below(250)) - 149);
      break;
    case PackingKind::kTopK:
      dtype = Below(2) == 0 ? DType::kF64 : DType::kF16;
      packing.count = Below(num_elements + 1);
      break;
    case PackingKind::kRandomK:
      packing.block_size = 1 + static_cast<uint32_t>(Below(1000));
      packing.seed = random_();
      break;
    case PackingKind::kDithering:
      packing.bits = uint8_t{2} << Below(3);
      packing.scale = 0.1f;
      Draw(packing.is_natural);
      break;
    case PackingKind::kBlocks:
      packing.element_dtype = kElements[Below(std::size(kElements))];
      packing.block_size = 1 + static_cast<uint32_t>(Below(1000));
      break;
    default:
      encoding = nullptr;
      return;
  }
  encoding = *Encoding::Create(packing, dtype, shape);
}

void RandomRequests::Draw(PushRequest& request) {
  DrawAll(request.name_space, request.call_id, request.namespace_uid,
          request.worker, request.step, request.max_reply_bytes,
          request.entries);
  request.reply_dtype = DType::kUnknown;
  if (Below(2) == 0) Draw(request.reply_dtype);
}

void RandomRequests::Draw(RefPtr<const RowIds>& rows) {
  const DType dtype = Below(2) == 0 ? DType::kI32 : DType::kI64;
  Tensor ids = *Tensor::Allocate(dtype, {static_cast<int64_t>(Below(20))});
  for (int64_t i = 0; i < ids.size_bytes(); ++i) {
    ids.mutable_data()[i] = static_cast<char>(random_());
  }
  rows = *RowIds::Create(std::move(ids));
}

void RandomRequests::Draw(PushRowsRequest& request) {
  DrawAll(request.name_space, request.call_id, request.namespace_uid,
          request.worker, request.step, request.entries);
  for (PushEntry& entry : request.entries) {
    entry.weight = 0;
    if (!entry.skip) DrawAll(entry.rows, entry.updates_all_rows);
  }
}

void RandomRequests::Draw(PullRowsRequest& request) {
  Draw(static_cast<PullRequest&>(request));
  request.dtype = DType::kUnknown;  // rows come as they are stored
  for (PullEntry& entry : request.entries) Draw(entry.rows);
}

void RandomRequests::Draw(PushResult& result) {
  DrawAll(result.version, result.step, result.repeated);
}

void RandomRequests::Draw(PushReply& reply) { Draw(reply.results); }

void RandomRequests::Draw(PullEntry& entry) {
  DrawAll(entry.key, entry.min_version, entry.state);
}

void RandomRequests::Draw(PullRequest& request) {
  DrawAll(request.name_space, request.namespace_uid, request.worker,
          request.wait_for_keys, request.max_reply_bytes, request.entries);
  if (Below(2) == 0) Draw(request.dtype);
}

void RandomRequests::Draw(Value& value) {
  DrawAll(value.version, value.tensor, value.num_contributions);
}

void RandomRequests::Draw(PullReply& reply) { Draw(reply.values); }

void RandomRequests::Draw(Stripe& stripe) {
  stripe.count = 1 + Below(64);
  stripe.index = Below(stripe.count);
  stripe.group = random_() | 1;
}

void RandomRequests::Draw(InitManifest& manifest) {
  DrawAll(manifest.request, manifest.stripe);
}

void RandomRequests::Draw(PushManifest& manifest) {
  DrawAll(manifest.request, manifest.stripe);
}

void RandomRequests::Draw(PullStreamRequest& request) {
  DrawAll(request.request, request.stripe, request.max_part_bytes,
          request.takes_batches);
  if (Below(2) == 0) return;
  PullRowsRequest rows;
  Draw(rows);
  request.request = std::move(rows);
}

void RandomRequests::Draw(DeleteRequest& request) {
  DrawAll(request.name_space, request.call_id, request.namespace_uid,
          request.keys, request.allow_missing);
}

void RandomRequests::Draw(DeleteReply& reply) { Draw(reply.num_deleted); }

void RandomRequests::Draw(ListRequest& request) {
  DrawAll(request.name_space, request.prefix, request.page_size,
          request.page_token);
}

void RandomRequests::Draw(KeyStatus& status) {
  DrawAll(status.key, status.dtype, status.shape, status.version,
          status.value_bytes, status.state_bytes, status.rule,
          status.update_count, status.multipliers, status.states,
          status.digest);
  std::normal_distribution<double> numbers;
  status.learning_rate = numbers(random_);
  status.weight_decay = numbers(random_);
}

void RandomRequests::Draw(ListReply& reply) {
  DrawAll(reply.keys, reply.next_page_token, reply.placement_version);
}

void RandomRequests::Draw(StatRequest& request) {
  DrawAll(request.name_space, request.keys, request.with_digest);
}

void RandomRequests::Draw(StatReply& reply) { Draw(reply.keys); }

void RandomRequests::Draw(NamespaceConfig& config) {
  DrawAll(config.mode, config.num_workers, config.max_workers, config.rule,
          config.budget_bytes, config.staleness, config.on_worker_loss,
          config.rescale_partial_rounds, config.quorum, config.quorum_grace,
          config.max_open_rounds, config.gradient_guard);
  config.aggregation = static_cast<Aggregation>(Below(3));
  config.trim_fraction = std::normal_distribution<>()(random_);
  Draw(config.mirrored);
}

void RandomRequests::Draw(GradientGuard& guard) {
  guard.on_non_finite = static_cast<OnNonFinite>(Below(4));
  guard.max_norm = Below(2) == 0 ? 0 : std::normal_distribution<>()(random_);
  guard.on_large_norm = static_cast<OnLargeNorm>(Below(2));
  guard.max_call_norm =
      Below(2) == 0 ? 0 : std::normal_distribution<>()(random_);
}

void RandomRequests::Draw(GuardCounts& counts) {
  DrawAll(counts.rank, counts.not_finite, counts.too_large);
}

void RandomRequests::Draw(OnWorkerLoss& on_worker_loss) {
  on_worker_loss = static_cast<OnWorkerLoss>(Below(2));
}

void RandomRequests::Draw(WaitStatus& status) {
  status.reason = static_cast<WaitReason>(Below(kNumWaitReasons));
  DrawAll(status.calls_waiting, status.calls_ended, status.waited);
}

void RandomRequests::Draw(MultipliersBinding& binding) {
  DrawAll(binding.key_pattern, binding.multipliers);
}

void RandomRequests::Draw(RuleBinding& binding) {
  DrawAll(binding.key_pattern, binding.rule);
}

void RandomRequests::Draw(NamespaceStatus& status) {
  DrawAll(status.name, status.uid, status.revision, status.config, status.rules,
          status.num_keys, status.memory, status.device_memory,
          status.updates_applied, status.rounds_open, status.rounds_closed,
          status.rounds_failed, status.calls_waiting, status.live_workers,
          status.workers, status.lease_expirations, status.contributions_late,
          status.contributions_duplicate, status.contributions_fenced,
          status.slowest_lag, status.waits, status.multipliers,
          status.guard_counts);
}

void RandomRequests::Draw(CreateNamespaceRequest& request) {
  DrawAll(request.name_space, request.config, request.on_existing,
          request.call_id);
}

void RandomRequests::Draw(CreateNamespaceReply& reply) { Draw(reply.uid); }

void RandomRequests::Draw(ListNamespacesRequest& request) {
  DrawAll(request.page_size, request.page_token);
}

void RandomRequests::Draw(ListNamespacesReply& reply) {
  DrawAll(reply.namespaces, reply.next_page_token);
}

void RandomRequests::Draw(UnsetRuleRequest& request) {
  DrawAll(request.name_space, request.call_id, request.key_pattern,
          request.multipliers);
}

void RandomRequests::Draw(SetRuleRequest& request) {
  DrawAll(request.name_space, request.key_pattern, request.rule,
          request.multipliers, request.call_id);
}

void RandomRequests::Draw(SetHyperparametersRequest& request) {
  DrawAll(request.name_space, request.key_pattern, request.hyperparameters,
          request.call_id);
}

void RandomRequests::Draw(absl::Duration& duration) {
  duration = absl::Nanoseconds(static_cast<int64_t>(random_()));
}

void RandomRequests::Draw(WorkerStatus& status) {
  DrawAll(status.name, status.worker, status.is_live, status.step,
          status.lease_remaining, status.has_left);
}

void RandomRequests::Draw(JoinRequest& request) {
  DrawAll(request.name_space, request.call_id, request.namespace_uid,
          request.worker_name, request.lease, request.replaces_epoch,
          request.rank);
}

void RandomRequests::Draw(JoinReply& reply) {
  DrawAll(reply.worker, reply.num_workers, reply.lease,
          reply.server_incarnation, reply.next_step, reply.was_lost);
}

void RandomRequests::Draw(KeepAliveRequest& request) {
  DrawAll(request.name_space, request.worker);
}

void RandomRequests::Draw(KeepAliveReply& reply) {
  DrawAll(reply.lease_remaining, reply.num_workers, reply.next_step);
}

void RandomRequests::Draw(LeaveRequest& request) {
  DrawAll(request.name_space, request.worker, request.is_lost, request.step);
  Draw(request.call_id);
}

void RandomRequests::Draw(BarrierRequest& request) {
  DrawAll(request.name_space, request.call_id, request.namespace_uid,
          request.worker, request.barrier);
}

void RandomRequests::Draw(CheckpointStatus& status) {
  absl::Duration since_epoch;
  DrawAll(status.name, since_epoch, status.bytes, status.num_keys,
          status.namespaces, status.sequence, status.automatic,
          status.written_bytes);
  status.create_time = absl::UnixEpoch() + since_epoch;
}

void RandomRequests::Draw(SaveCheckpointRequest& request) {
  DrawAll(request.name, request.namespaces);
}

void RandomRequests::Draw(RestoreCheckpointRequest& request) {
  DrawAll(request.name, request.namespaces, request.as_namespace,
          request.on_existing);
}

void RandomRequests::Draw(DescribeClusterReply& reply) {
  DrawAll(reply.server_name, reply.placement.cluster, reply.placement.version,
          reply.placement.split_bytes);
  reply.placement.servers.resize(1 + Below(4));
  for (ClusterServer& server : reply.placement.servers) {
    DrawAll(server.name, server.address, server.weight, server.is_live);
  }
  reply.placement.owners.resize(Below(20));
  for (uint32_t& owner : reply.placement.owners) {
    owner = static_cast<uint32_t>(Below(reply.placement.servers.size()));
  }
  if (reply.placement.owners.empty()) return;
  reply.placement.lost.resize(Below(3));
  for (LostPartitions& lost : reply.placement.lost) {
    DrawAll(lost.server, lost.is_given_up);
    lost.partitions.resize(Below(4));
    for (uint32_t& partition : lost.partitions) {
      partition = static_cast<uint32_t>(Below(reply.placement.owners.size()));
    }
  }
}

void RandomRequests::Draw(ResizeClusterRequest& request) {
  DrawAll(request.add, request.remove, request.lost, request.give_up);
}

void RandomRequests::Draw(ResizeClusterReply& reply) {
  reply.servers.resize(Below(4));
  for (ClusterServer& server : reply.servers) {
    DrawAll(server.name, server.address, server.weight, server.is_live);
  }
  DrawAll(reply.partitions_to_move, reply.partitions_to_restore);
}

void RandomRequests::Draw(MovePartitionsRequest& request) {
  request.step = static_cast<MoveStep>(Below(4));
  DrawAll(request.from, request.move, request.num_partitions, request.part,
          request.data, request.placement_version, request.registration);
  request.partitions.resize(Below(5));
  for (uint32_t& partition : request.partitions) Draw(partition);
}

void RandomRequests::Draw(ListCheckpointsReply& reply) {
  DrawAll(reply.checkpoints);
}

void RandomRequests::Draw(ServerStatus& status) {
  DrawAll(status.version, status.incarnation, status.start_unix_seconds,
          status.devices, status.budget_bytes, status.used_bytes,
          status.max_message_bytes, status.max_entries, status.device_budgets);
}

void RandomRequests::Draw(DeviceBudget& budget) {
  DrawAll(budget.device, budget.budget_bytes, budget.used_bytes);
}

void RandomRequests::Draw(MemoryUse& use) {
  DrawAll(use.values, use.state, use.contributions, use.metadata);
}

void RandomRequests::Draw(DeviceMemoryUse& memory) {
  DrawAll(memory.device, memory.memory);
}

}  // namespace tensorkv::testing
