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
#include <iterator>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "contract/requests.h"
#include "contract/timestamp.h"

namespace tensorkv {

inline void Add(const MemoryUse& other, MemoryUse& total) {
  total.values += other.values;
  total.state += other.state;
  total.contributions += other.contributions;
  total.metadata += other.metadata;
}

// Adds the counts of each reason.
inline void AddWaits(const std::vector<WaitStatus>& other,
                     std::vector<WaitStatus>& total) {
  for (const WaitStatus& wait : other) {
    const auto found = absl::c_find_if(total, [&](const WaitStatus& known) {
      return known.reason == wait.reason;
    });
    if (found == total.end()) {
      total.push_back(wait);
      continue;
    }
    found->calls_waiting += wait.calls_waiting;
    found->calls_ended += wait.calls_ended;
    found->waited += wait.waited;
  }
}

// Adds the counts of each rank.
inline void AddGuardCounts(const std::vector<GuardCounts>& other,
                           std::vector<GuardCounts>& total) {
  for (const GuardCounts& counts : other) {
    const auto found = absl::c_find_if(total, [&](const GuardCounts& known) {
      return known.rank == counts.rank;
    });
    if (found == total.end()) {
      total.push_back(counts);
      continue;
    }
    found->not_finite += counts.not_finite;
    found->too_large += counts.too_large;
  }
}

// Merges the statuses of the workers in `total`: a worker is as far as its
// furthest server says, and as alive as the server that trusts it least.
inline void AddWorkers(const std::vector<WorkerStatus>& other,
                       std::vector<WorkerStatus>& total) {
  for (WorkerStatus& worker : total) {
    for (const WorkerStatus& there : other) {
      const bool is_same = worker.name.empty()
                               ? there.worker.rank == worker.worker.rank
                               : there.name == worker.name;
      if (!is_same) continue;
      worker.live = worker.live && there.live;
      worker.left = worker.left || there.left;
      worker.step = std::max(worker.step, there.step);
      worker.lease_remaining =
          std::min(worker.lease_remaining, there.lease_remaining);
    }
  }
}

inline void Add(const NamespaceStatus& other, NamespaceStatus& total) {
  total.num_keys += other.num_keys;
  Add(other.memory, total.memory);
  absl::c_copy(other.device_memory, std::back_inserter(total.device_memory));
  total.updates_applied += other.updates_applied;
  total.rounds_open += other.rounds_open;
  total.rounds_closed += other.rounds_closed;
  total.rounds_failed += other.rounds_failed;
  total.calls_waiting += other.calls_waiting;
  AddWorkers(other.workers, total.workers);
  total.contributions_late += other.contributions_late;
  total.contributions_duplicate += other.contributions_duplicate;
  total.contributions_fenced += other.contributions_fenced;
  total.slowest_lag = std::max(total.slowest_lag, other.slowest_lag);
  AddWaits(other.waits, total.waits);
  total.revision += other.revision;
  total.live_workers = std::min(total.live_workers, other.live_workers);
  AddGuardCounts(other.guard_counts, total.guard_counts);
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
