// Which rank a worker gets that joins, and in whose place.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/workers/worker_group.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status CheckLease(const WorkerGroupOptions& options,
                        absl::Duration lease) {
  if (lease >= options.min_lease && lease <= options.max_lease) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("lease: expected ", absl::FormatDuration(options.min_lease),
                   " to ", absl::FormatDuration(options.max_lease), ", got ",
                   absl::FormatDuration(lease)));
}

}  // namespace

absl::StatusOr<Worker> WorkerGroup::Join(absl::string_view name,
                                         absl::Duration lease, uint64_t epoch,
                                         uint64_t replaces_epoch, Step reached,
                                         absl::Duration now,
                                         std::optional<uint32_t> wanted) {
  RETURN_IF_ERROR(CheckLease(options_, lease));
  RETURN_IF_ERROR(CheckMayJoin(name, replaces_epoch, now));
  ASSIGN_OR_RETURN(const uint32_t rank, RankFor(name, replaces_epoch, wanted));
  const bool was_live = StateOf(rank) == State::kLive;
  const bool was_lost = WasLost(rank, name);
  Member& member = At(rank);
  const bool is_same = member.state != State::kVacant && member.name == name;
  if (!was_live) BeginSteps(rank, is_same, epoch, reached);
  if (!was_live && !was_lost) {
    member.order = ++last_order_;
    member.has_contributed = false;
  }
  if (member.state == State::kLeft) --num_left_;
  // Its own server has its steps from now on.
  if (!IsLocal(rank)) StepAt(rank) = 0;
  member.Join(name, epoch, lease, now);
  has_joined_ = true;
  if (!was_live) ++num_live_;
  if (num_live_ >= options_.min_workers) is_formed_ = true;
  return Worker{.rank = rank, .epoch = epoch};
}

void WorkerGroup::BeginSteps(uint32_t rank, bool is_same, uint64_t epoch,
                             Step reached) {
  const bool goes_on = IsAwaited(rank) || (is_whole() && HasLeft(rank));
  if (goes_on) return;
  Member& member = members_[rank];
  const bool keeps_step =
      is_same && (member.state == State::kRestored || options_.counts_alone);
  Step& step = StepAt(rank);
  step = keeps_step ? std::max(step, reached) : reached;
  if (!keeps_step) member.first_epoch = epoch;
  if (!options_.counts_alone) member.first_step = After(max_step_);
  repeating_ranks_.erase(rank);
}

bool WorkerGroup::WasLost(uint32_t rank, absl::string_view name) const {
  const State state = StateOf(rank);
  return (state == State::kLost || state == State::kRestored) &&
         members_[rank].name == name;
}

absl::Status WorkerGroup::CheckMayJoin(absl::string_view name,
                                       uint64_t replaces_epoch,
                                       absl::Duration now) const {
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (member.state != State::kLive || member.name != name ||
        member.epoch == replaces_epoch) {
      continue;
    }
    return WithReason(
        absl::AlreadyExistsError(absl::StrCat(
            "worker ", Quoted(name), ": is live already, as rank ", rank,
            "; its lease ends in ",
            absl::FormatDuration(
                absl::Trunc(member.lease_end - now, absl::Milliseconds(100))))),
        Reason::kWorkerNameTaken, {{"rank", rank}});
  }
  if (!is_static_) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "worker ", Quoted(name),
          ": the workers of this namespace do not join: some have taken part "
          "with epoch 0")),
      Reason::kGroupDoesNotJoin);
}

absl::StatusOr<uint32_t> WorkerGroup::WantedRank(absl::string_view name,
                                                 uint64_t replaces_epoch,
                                                 uint32_t rank) const {
  if (rank >= options_.max_workers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank: expected one below ", options_.max_workers, ", got ", rank));
  }
  for (uint32_t own = 0; own < members_.size(); ++own) {
    const Member& member = members_[own];
    if (member.state == State::kLive && member.name == name &&
        member.epoch == replaces_epoch) {
      return own;
    }
  }
  if (StateOf(rank) != State::kLive) return rank;
  return WithReason(absl::AlreadyExistsError(absl::StrCat(
                        "worker ", Quoted(name), ": rank ", rank,
                        " has a live worker, ", Quoted(members_[rank].name))),
                    Reason::kWorkerNameTaken, {{"rank", rank}});
}

bool WorkerGroup::IsOf(uint32_t rank, absl::string_view name,
                       uint64_t replaces_epoch) const {
  const State state = StateOf(rank);
  if (state == State::kVacant || members_[rank].name != name) return false;
  return state != State::kLive || members_[rank].epoch == replaces_epoch;
}

std::optional<uint32_t> WorkerGroup::FreeRank() const {
  std::optional<uint32_t> lowest;
  const uint32_t end =
      std::min<uint64_t>(options_.max_workers, uint64_t{members_.size()} + 1);
  for (uint32_t rank = 0; rank < end; ++rank) {
    const State state = StateOf(rank);
    if (state == State::kLive) continue;
    if (!is_elastic() && state == State::kVacant) return rank;
    if (!lowest) lowest = rank;
  }
  return lowest;
}

absl::StatusOr<uint32_t> WorkerGroup::RankFor(
    absl::string_view name, uint64_t replaces_epoch,
    std::optional<uint32_t> wanted) const {
  if (wanted) return WantedRank(name, replaces_epoch, *wanted);
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (IsOf(rank, name, replaces_epoch)) return rank;
  }
  if (const std::optional<uint32_t> rank = FreeRank()) return *rank;
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "worker ", Quoted(name), ": expected at most ",
                        options_.max_workers, " workers, got one more")),
                    Reason::kGroupFull);
}

absl::StatusOr<uint64_t> WorkerGroup::EpochBefore(absl::string_view name,
                                                  const Worker& joined) const {
  uint64_t before = 0;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    const bool has_name = member.name == name;
    if (member.epoch == 0 || (rank != joined.rank && !has_name)) continue;
    const bool is_its =
        rank == joined.rank && has_name && member.state == State::kLive;
    if (is_its && member.epoch <= joined.epoch) {
      before = member.epoch;
    } else if (member.epoch >= joined.epoch) {
      return WithReason(
          absl::FailedPreconditionError(
              absl::StrCat("worker ", joined.rank, ": expected an epoch above ",
                           member.epoch, ", got ", joined.epoch)),
          Reason::kLeaseLost, {{"rank", joined.rank}, {"epoch", joined.epoch}});
    }
  }
  return before;
}

std::optional<Worker> WorkerGroup::FormerOf(absl::string_view name,
                                            uint32_t rank) const {
  for (uint32_t own = 0; own < members_.size(); ++own) {
    const Member& member = members_[own];
    if (own != rank && member.state == State::kLive && member.name == name) {
      return Worker{.rank = own, .epoch = member.epoch};
    }
  }
  return std::nullopt;
}

uint64_t WorkerGroup::max_epoch() const {
  uint64_t highest = 0;
  for (const Member& member : members_) {
    highest = std::max(highest, member.epoch);
  }
  return highest;
}

}  // namespace tensorkv
