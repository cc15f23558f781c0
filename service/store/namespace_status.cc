#include "service/store/namespace_status.h"

#include "contract/duration.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

void MemoryToProto(const MemoryUse& use, v1::MemoryUse* proto) {
  proto->set_values(use.values);
  proto->set_state(use.state);
  proto->set_contributions(use.contributions);
  proto->set_metadata(use.metadata);
  proto->set_retained(use.retained);
}

void WaitToProto(const WaitStatus& wait, v1::WaitStatus* proto) {
  // WAIT_REASON_KEY and the others follow WaitReason, from 1.
  proto->set_reason(
      static_cast<v1::WaitReason>(static_cast<int>(wait.reason) + 1));
  proto->set_calls_waiting(wait.calls_waiting);
  proto->set_calls_ended(wait.calls_ended);
  EncodeDuration(wait.waited, proto->mutable_waited());
}

void CountsToProto(const GuardCounts& counts, v1::GuardCounts* proto) {
  if (counts.rank) proto->set_rank(*counts.rank);
  proto->set_not_finite(counts.not_finite);
  proto->set_too_large(counts.too_large);
}

}  // namespace

void ToProto(const RuleBinding& binding, v1::RuleBinding* proto) {
  proto->set_key_pattern(binding.key_pattern);
  ToProto(binding.rule, proto->mutable_rule());
}

void ToProto(const MultipliersBinding& binding, v1::MultipliersBinding* proto) {
  proto->set_key_pattern(binding.key_pattern);
  ToProto(binding.multipliers, proto->mutable_multipliers());
}

void ToProto(const NamespaceSummary& summary, v1::NamespaceStatus* proto) {
  proto->set_name(summary.name);
  proto->set_uid(summary.uid);
  proto->set_revision(summary.revision);
  proto->set_num_keys(summary.num_keys);
  MemoryToProto(summary.memory, proto->mutable_memory());
  for (const DeviceMemoryUse& each : summary.device_memory) {
    v1::DeviceMemoryUse* const use = proto->add_device_memory();
    use->set_device(each.device);
    MemoryToProto(each.memory, use->mutable_memory());
  }
  proto->set_updates_applied(summary.updates_applied);
  proto->set_rounds_open(summary.rounds_open);
  proto->set_rounds_closed(summary.rounds_closed);
  proto->set_rounds_failed(summary.rounds_failed);
  proto->set_calls_waiting(summary.calls_waiting);
  for (const WaitStatus& wait : summary.waits) {
    WaitToProto(wait, proto->add_waits());
  }
  proto->set_live_workers(summary.live_workers);
  proto->set_lease_expirations(summary.lease_expirations);
  proto->set_contributions_late(summary.contributions_late);
  proto->set_contributions_duplicate(summary.contributions_duplicate);
  proto->set_contributions_fenced(summary.contributions_fenced);
  proto->set_slowest_lag(summary.slowest_lag);
  for (const GuardCounts& counts : summary.guard_counts) {
    CountsToProto(counts, proto->add_guard_counts());
  }
  proto->set_num_snapshots(summary.num_snapshots);
  proto->set_changes_told(summary.changes_told);
  proto->set_watches_compacted(summary.watches_compacted);
  proto->set_change_log_bytes(summary.change_log_bytes);
}

}  // namespace tensorkv
