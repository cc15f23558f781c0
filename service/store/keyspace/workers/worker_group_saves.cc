// Saves and restores the workers of a namespace, and takes those that come with
// keys.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/store/keyspace/workers/worker_group.h"

namespace tensorkv {

absl::Status CheckRanks(const std::vector<WorkerSnapshot>& workers,
                        uint32_t max_workers) {
  int64_t last = -1;
  for (const WorkerSnapshot& worker : workers) {
    const int64_t rank = worker.worker.rank;
    if (rank <= last || rank >= max_workers) {
      return absl::InvalidArgumentError(
          absl::StrCat("workers of the snapshot: expected a rank above ", last,
                       " and below ", max_workers, ", got ", rank));
    }
    last = rank;
  }
  return absl::OkStatus();
}

std::vector<WorkerSnapshot> WorkerGroup::Save() const {
  std::vector<WorkerSnapshot> workers;
  const size_t end = std::max(members_.size(), steps_.size());
  for (uint32_t rank = 0; rank < end; ++rank) {
    WorkerSnapshot worker = {.worker = {.rank = rank},
                             .step = step_of(rank),
                             .repeats_step = RepeatsStep(rank)};
    if (rank < members_.size()) {
      const Member& member = members_[rank];
      worker.name = member.name;
      worker.worker.epoch = member.epoch;
      worker.has_left = member.state == State::kLeft;
      worker.first_step = member.first_step;
      worker.order = member.order;
      worker.has_told_step = member.has_told_step;
      // The group goes on without it: if it comes again, which a restore may
      // have the group await, it has part in later steps alone.
      const bool goes_on = member.state == State::kLive || IsAwaited(rank) ||
                           (is_whole() && HasLeft(rank));
      if (!goes_on && !options_.counts_alone) {
        worker.step = std::min(worker.step, max_step_);
        worker.first_step = After(max_step_);
      }
    }
    if (worker.worker.epoch > 0 || worker.step > 0) {
      workers.push_back(std::move(worker));
    }
  }
  return workers;
}

void WorkerGroup::Restore(const std::vector<WorkerSnapshot>& workers,
                          Step max_closed, absl::Duration now) {
  const bool has_anybody_come =
      std::ranges::any_of(members_, [](const Member& member) {
        return member.state == State::kLive || member.state == State::kLost;
      });
  if (has_anybody_come) return;
  steps_.clear();
  repeating_ranks_.clear();
  for (const WorkerSnapshot& worker : workers) {
    const uint32_t rank = worker.worker.rank;
    StepAt(rank) = worker.step;
    if (worker.repeats_step) repeating_ranks_.insert(rank);
    if (worker.worker.epoch == 0) continue;
    has_joined_ = true;
    Member& member = At(rank);
    // The epochs before it stay fenced off.
    if (member.epoch > worker.worker.epoch) continue;
    member = {.state = worker.has_left ? State::kLeft : State::kRestored,
              .name = worker.name,
              .epoch = worker.worker.epoch,
              .lease_end = now,
              .has_contributed = worker.step > 0,
              .has_told_step = worker.has_told_step,
              .order = worker.order,
              .first_step = worker.first_step};
    last_order_ = std::max(last_order_, worker.order);
  }
  // Else it has the steps of members who had yet to join where it was saved.
  if (!has_joined_ && !workers.empty()) is_static_ = true;
  num_left_ = static_cast<uint32_t>(
      std::ranges::count(members_, State::kLeft, &Member::state));
  max_closed_ = max_closed;
  LowerMaxStep(0);
}

void WorkerGroup::AdoptSteps(const std::vector<WorkerSnapshot>& workers,
                             Step max_closed, bool has_keys) {
  if (!has_keys) {
    steps_.clear();
    repeating_ranks_.clear();
    for (const WorkerSnapshot& worker : workers) {
      const uint32_t rank = worker.worker.rank;
      const bool has_joined =
          rank < members_.size() && members_[rank].state != State::kVacant;
      const bool is_same = has_joined && members_[rank].name == worker.name;
      // Who counts alone begins with steps of its own.
      if (options_.counts_alone && has_joined && !is_same) continue;
      StepAt(rank) = worker.step;
      if (worker.repeats_step) repeating_ranks_.insert(rank);
      if (is_same) members_[rank].has_contributed = worker.step > 0;
    }
    max_closed_ = 0;
    max_step_ = 0;
  }
  max_closed_ = std::max(max_closed_, max_closed);
  max_step_ = std::max(max_step_, max_closed_);
  for (const WorkerSnapshot& worker : workers) {
    if (!worker.has_left) max_step_ = std::max(max_step_, worker.step);
  }
}

void WorkerGroup::GoBack(const std::vector<WorkerSnapshot>& workers,
                         absl::Duration now) {
  std::vector<Step> saved(steps_.size());
  for (const WorkerSnapshot& worker : workers) {
    const uint32_t rank = worker.worker.rank;
    if (rank >= saved.size()) continue;
    saved[rank] = worker.step;
    if (worker.repeats_step && worker.step <= steps_[rank]) {
      repeating_ranks_.insert(rank);
    }
  }
  for (uint32_t rank = 0; rank < steps_.size(); ++rank) {
    const Step last = std::max(saved[rank], first_step_of(rank));
    if (last < steps_[rank]) AwaitAgain(rank);
    steps_[rank] = std::min(steps_[rank], last);
  }
  for (Member& member : members_) {
    if (member.state != State::kLive && member.state != State::kLost) continue;
    member.state = State::kRestored;
    member.lease_end = std::min(member.lease_end, now);
  }
  num_live_ = 0;
  is_formed_ = options_.min_workers == 0;
}

void WorkerGroup::RepeatFrom(Step step) {
  for (uint32_t rank = 0; rank < steps_.size(); ++rank) {
    if (step > steps_[rank]) continue;
    AwaitAgain(rank);
    steps_[rank] = std::min(steps_[rank], std::max(step, first_step_of(rank)));
    repeating_ranks_.insert(rank);
  }
}

bool WorkerGroup::RepeatsStep(uint32_t rank) const {
  return repeating_ranks_.contains(rank);
}

void WorkerGroup::AwaitAgain(uint32_t rank) {
  if (!is_whole() || !HasLeft(rank)) return;
  members_[rank].state = State::kRestored;
  --num_left_;
}

}  // namespace tensorkv
