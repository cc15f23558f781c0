// One reply from those of several servers, where they can be added up.
//
// `total` stands for the whole call once all servers' replies are added. Counts
// and bytes are sums; of limits and of live workers the least counts, of lags
// and times the greatest. Revisions and incarnations are added too: the total
// differs once any server's does. What all servers have in common, such as
// configurations and lost leases, stays that of the first. Pure functions,
// thread-safe.

#ifndef TENSORKV_CLIENT_CLUSTER_ADDED_REPLIES_H_
#define TENSORKV_CLIENT_CLUSTER_ADDED_REPLIES_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "contract/duration.h"
#include "contract/requests.h"
#include "contract/timestamp.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {

template <typename Message>
using Repeated = google::protobuf::RepeatedPtrField<Message>;

// Lowers `total` to `other` if that is shorter.
inline void SetToShorter(const google::protobuf::Duration& other,
                         google::protobuf::Duration& total) {
  EncodeDuration(std::min(DurationIn(total), DurationIn(other)), &total);
}

inline void Add(const v1::MemoryUse& other, v1::MemoryUse& total) {
  total.set_values(total.values() + other.values());
  total.set_state(total.state() + other.state());
  total.set_contributions(total.contributions() + other.contributions());
  total.set_metadata(total.metadata() + other.metadata());
  total.set_retained(total.retained() + other.retained());
}

inline void Add(const v1::WaitStatus& other, v1::WaitStatus& total) {
  total.set_calls_waiting(total.calls_waiting() + other.calls_waiting());
  total.set_calls_ended(total.calls_ended() + other.calls_ended());
  EncodeDuration(DurationIn(total.waited()) + DurationIn(other.waited()),
                 total.mutable_waited());
}

inline void Add(const v1::GuardCounts& other, v1::GuardCounts& total) {
  total.set_not_finite(total.not_finite() + other.not_finite());
  total.set_too_large(total.too_large() + other.too_large());
}

inline bool CountTheSame(const v1::WaitStatus& a, const v1::WaitStatus& b) {
  return a.reason() == b.reason();
}
inline bool CountTheSame(const v1::GuardCounts& a, const v1::GuardCounts& b) {
  return a.has_rank() == b.has_rank() && a.rank() == b.rank();
}

// Adds the counts of each reason, or of each rank.
template <typename Counts>
void AddEach(const Repeated<Counts>& other, Repeated<Counts>& total) {
  for (const Counts& counts : other) {
    const auto found = absl::c_find_if(total, [&](const Counts& known) {
      return CountTheSame(known, counts);
    });
    if (found == total.end()) {
      *total.Add() = counts;
    } else {
      Add(counts, *found);
    }
  }
}

// Merges what another server says of the same worker: a worker is as far as its
// furthest server says, and as alive as the server that trusts it least.
inline void Add(const WorkerStatus& other, WorkerStatus& total) {
  total.set_live(total.live() && other.live());
  total.set_left(total.left() || other.left());
  total.set_step(std::max(total.step(), other.step()));
  SetToShorter(other.lease_remaining(), *total.mutable_lease_remaining());
}

// Merges the statuses of the workers in `total`.
inline void AddWorkers(const Repeated<WorkerStatus>& other,
                       Repeated<WorkerStatus>& total) {
  for (WorkerStatus& worker : total) {
    for (const WorkerStatus& there : other) {
      const bool is_same = worker.name().empty()
                               ? there.worker().rank() == worker.worker().rank()
                               : there.name() == worker.name();
      if (is_same) Add(there, worker);
    }
  }
}

inline void Add(const NamespaceStatus& other, NamespaceStatus& total) {
  total.set_num_keys(total.num_keys() + other.num_keys());
  Add(other.memory(), *total.mutable_memory());
  total.mutable_device_memory()->MergeFrom(other.device_memory());
  total.set_updates_applied(total.updates_applied() + other.updates_applied());
  total.set_rounds_open(total.rounds_open() + other.rounds_open());
  total.set_rounds_closed(total.rounds_closed() + other.rounds_closed());
  total.set_rounds_failed(total.rounds_failed() + other.rounds_failed());
  total.set_changes_told(total.changes_told() + other.changes_told());
  total.set_watches_compacted(total.watches_compacted() +
                              other.watches_compacted());
  total.set_change_log_bytes(total.change_log_bytes() +
                             other.change_log_bytes());
  total.set_calls_waiting(total.calls_waiting() + other.calls_waiting());
  AddWorkers(other.workers(), *total.mutable_workers());
  total.set_contributions_late(total.contributions_late() +
                               other.contributions_late());
  total.set_contributions_duplicate(total.contributions_duplicate() +
                                    other.contributions_duplicate());
  total.set_contributions_fenced(total.contributions_fenced() +
                                 other.contributions_fenced());
  total.set_slowest_lag(std::max(total.slowest_lag(), other.slowest_lag()));
  AddEach(other.waits(), *total.mutable_waits());
  total.set_revision(total.revision() + other.revision());
  total.set_live_workers(std::min(total.live_workers(), other.live_workers()));
  AddEach(other.guard_counts(), *total.mutable_guard_counts());
}

inline void Add(const DescribeNamespaceReply& other,
                DescribeNamespaceReply& total) {
  Add(other.status(), *total.mutable_status());
}

inline void Add(const CheckpointStatus& other, CheckpointStatus& total) {
  total.set_bytes(total.bytes() + other.bytes());
  total.set_num_keys(total.num_keys() + other.num_keys());
  EncodeTime(std::max(DecodeTime(total.create_time()),
                      DecodeTime(other.create_time())),
             total.mutable_create_time());
}

// Adds replies that have the status of a checkpoint.
template <typename Reply>
requires requires(Reply& reply) { reply.mutable_checkpoint(); }
void Add(const Reply& other, Reply& total) {
  Add(other.checkpoint(), *total.mutable_checkpoint());
}

inline void Add(const ServerStatus& other, ServerStatus& total) {
  total.set_incarnation(total.incarnation() + other.incarnation());
  total.mutable_start_time()->set_seconds(
      std::max(total.start_time().seconds(), other.start_time().seconds()));
  total.mutable_devices()->MergeFrom(other.devices());
  total.set_budget_bytes(total.budget_bytes() + other.budget_bytes());
  total.set_used_bytes(total.used_bytes() + other.used_bytes());
  total.set_max_message_bytes(
      std::min(total.max_message_bytes(), other.max_message_bytes()));
  total.set_max_entries(std::min(total.max_entries(), other.max_entries()));
  total.mutable_device_budgets()->MergeFrom(other.device_budgets());
}

// Returns the sum of the replies, as Add makes it of two. REQUIRES: there is at
// least one.
template <typename Reply>
Reply SumOf(std::vector<Reply> replies) {
  Reply total = std::move(replies.front());
  for (size_t i = 1; i < replies.size(); ++i) Add(replies[i], total);
  return total;
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_ADDED_REPLIES_H_
