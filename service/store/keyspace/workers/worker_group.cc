#include "service/store/keyspace/workers/worker_group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Statuses travel in HTTP/2 headers, which are small.
constexpr size_t kMostRanksNamed = 16;

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100)));
}

// Requests that name no worker have the rank that no group has.
absl::Status CheckIsNamed(const Worker& worker) {
  if (worker.rank != UINT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError("worker: expected a rank, got none");
}

absl::Status Refused(const Worker& worker, Reason reason,
                     absl::string_view problem) {
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("worker ", worker.rank, ": ", problem)),
                    reason, {{"rank", worker.rank}, {"epoch", worker.epoch}});
}

}  // namespace

WorkerGroup::WorkerGroup(const WorkerGroupOptions& options)
    : options_(options), is_formed_(options.min_workers == 0) {}

absl::Status WorkerGroup::Check(const Worker& worker,
                                absl::Duration now) const {
  RETURN_IF_ERROR(CheckIsNamed(worker));
  if (worker.rank >= options_.max_workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker: expected a rank below ", options_.max_workers,
                     ", got ", worker.rank));
  }
  if (has_joined_ || is_elastic()) return CheckJoined(worker, now);
  if (worker.epoch == 0) return absl::OkStatus();
  return Refused(worker,
                 is_static_ ? Reason::kGroupDoesNotJoin : Reason::kNotMember,
                 absl::StrCat("expected epoch 0, as the workers of this "
                              "namespace do not join, got ",
                              worker.epoch));
}

absl::Status WorkerGroup::CheckJoined(const Worker& worker,
                                      absl::Duration now) const {
  RETURN_IF_ERROR(CheckIsNamed(worker));
  if (worker.epoch == 0) {
    return Refused(worker, Reason::kNotMember,
                   "expected a worker that has joined, got epoch 0");
  }
  if (StateOf(worker.rank) == State::kVacant) {
    return Refused(worker, Reason::kNotMember,
                   "no worker has joined with that rank");
  }
  const Member& member = members_[worker.rank];
  if (member.epoch != worker.epoch) {
    return Refused(
        worker, Reason::kLeaseLost,
        absl::StrCat("expected epoch ", member.epoch, ", got ", worker.epoch,
                     member.epoch > worker.epoch
                         ? ": a later worker has its rank"
                         : ": join again"));
  }
  if (member.state == State::kLive) return absl::OkStatus();
  if (member.state == State::kLeft) {
    return Refused(worker, Reason::kNotMember, "has left; join again");
  }
  return Refused(
      worker, Reason::kLeaseLost,
      absl::StrCat(member.says_it_is_lost ? "has failed, as it said, "
                                          : "lost its lease ",
                   Seconds(now - member.lease_end), " ago; join again"));
}

void WorkerGroup::Renew(const Worker& worker, absl::Duration now) {
  if (worker.epoch == 0) return;
  Member& member = members_[worker.rank];
  member.lease_end = now + member.lease;
}

void WorkerGroup::Leave(const Worker& worker, std::optional<Step> step) {
  Member& member = members_[worker.rank];
  member.state = State::kLeft;
  member.order = ++last_order_;
  member.has_told_step = step.has_value();
  if (!IsLocal(worker.rank) && step) StepAt(worker.rank) = *step;
  --num_live_;
  ++num_left_;
}

void WorkerGroup::EndLease(const Worker& worker, absl::Duration now) {
  Member& member = members_[worker.rank];
  member.says_it_is_lost = true;
  member.lease_end = now;
}

std::vector<uint32_t> WorkerGroup::Expired(absl::Duration now) const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (member.state == State::kLive && member.lease_end <= now) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

void WorkerGroup::Lose(uint32_t rank) {
  members_[rank].state = State::kLost;
  // The group is smaller from now on.
  if (is_elastic()) members_[rank].last_step = max_step_;
  --num_live_;
  ++num_expirations_;
}

std::vector<uint32_t> WorkerGroup::SetOnWorkerLoss(
    const WorkerGroupOptions& options) {
  options_.on_worker_loss = options.on_worker_loss;
  options_.awaits_left = options.awaits_left;
  if (is_elastic()) return {};
  std::vector<uint32_t> gone;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    // It has no lease that could end.
    if (!is_whole() && StateOf(rank) == State::kRestored) {
      members_[rank].state = State::kLost;
    }
    if (StateOf(rank) != State::kLost && !HasLeft(rank)) continue;
    gone.push_back(rank);
    if (!is_whole()) continue;
    // The steps that somebody has reached did without it. Of what it has
    // contributed to later ones nothing is left.
    StepAt(rank) = max_step_;
    members_[rank].first_step = After(max_step_);
    repeating_ranks_.erase(rank);
  }
  if (is_whole()) gone.clear();
  return gone;
}

absl::Duration WorkerGroup::next_expiry() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const Member& member : members_) {
    if (member.state == State::kLive) next = std::min(next, member.lease_end);
  }
  return next;
}

bool WorkerGroup::is_whole() const {
  return !is_elastic() && options_.on_worker_loss == OnWorkerLoss::kFail;
}

WorkerGroup::State WorkerGroup::StateOf(uint32_t rank) const {
  return rank < members_.size() ? members_[rank].state : State::kVacant;
}

bool WorkerGroup::IsAwaited(uint32_t rank) const {
  if (is_elastic()) return !is_formed_ && rank < options_.min_workers;
  const State state = StateOf(rank);
  return state == State::kVacant || state == State::kRestored ||
         (state == State::kLost &&
          options_.on_worker_loss == OnWorkerLoss::kFail) ||
         (state == State::kLeft && options_.awaits_left);
}

bool WorkerGroup::IsAtWork(uint32_t rank) const {
  return Needs(rank, UINT64_MAX) && !HasLeft(rank);
}

bool WorkerGroup::Needs(uint32_t rank, Step step) const {
  if (rank >= options_.max_workers || !IsLocal(rank)) return false;
  if (StateOf(rank) != State::kLive && !IsAwaited(rank)) return false;
  return TakesPart(rank, step);
}

bool WorkerGroup::NeedsAtBarrier(uint32_t rank) const {
  if (rank >= options_.max_workers) return false;
  return StateOf(rank) == State::kLive || IsAwaited(rank) ||
         (is_whole() && HasLeft(rank));
}

bool WorkerGroup::HasLeftSince(uint32_t rank, uint32_t member) const {
  return is_whole() && HasLeft(rank) && StateOf(member) != State::kVacant &&
         members_[rank].order > members_[member].order;
}

std::vector<uint32_t> WorkerGroup::LeftSince(absl::Span<const uint32_t> ranks,
                                             uint32_t member) const {
  std::vector<uint32_t> left;
  for (const uint32_t rank : ranks) {
    if (HasLeftSince(rank, member)) left.push_back(rank);
  }
  return left;
}

bool WorkerGroup::IsLackingElsewhere(uint32_t rank, Step step) const {
  return !IsLocal(rank) && HasLeft(rank) && members_[rank].has_told_step &&
         step_of(rank) < step;
}

bool WorkerGroup::HaveLeftSinceAny(absl::Span<const uint32_t> ranks,
                                   absl::Span<const uint32_t> members) const {
  std::optional<uint32_t> first;
  for (const uint32_t rank : members) {
    if (StateOf(rank) == State::kVacant) continue;
    if (!first || members_[rank].order < members_[*first].order) first = rank;
  }
  return first && LeftSince(ranks, *first).size() == ranks.size();
}

bool WorkerGroup::TakesPart(uint32_t rank, Step step) const {
  return rank >= members_.size() || step >= members_[rank].first_step;
}

uint32_t WorkerGroup::end_rank() const {
  const uint32_t awaited =
      is_elastic() && is_formed_ ? 0 : options_.min_workers;
  return std::max(awaited, static_cast<uint32_t>(members_.size()));
}

bool WorkerGroup::CountsIn(uint32_t rank, Step step) const {
  const State state = StateOf(rank);
  if (state == State::kVacant || state == State::kLeft) return IsAwaited(rank);
  return TakesPart(rank, step) && step <= members_[rank].last_step;
}

WorkerGroup::Member& WorkerGroup::At(uint32_t rank) {
  if (rank >= members_.size()) members_.resize(rank + 1);
  return members_[rank];
}

Step& WorkerGroup::StepAt(uint32_t rank) {
  if (rank >= steps_.size()) steps_.resize(rank + 1);
  return steps_[rank];
}

void WorkerGroup::Reach(const Worker& worker, Step step) {
  if (worker.epoch == 0) is_static_ = true;
  // What a former worker of the rank has under way is no step of this one.
  if (worker.rank < members_.size() &&
      worker.epoch < members_[worker.rank].first_epoch) {
    return;
  }
  Step& reached = StepAt(worker.rank);
  // Until then, some keys may lack the step that is repeated.
  if (step > reached) repeating_ranks_.erase(worker.rank);
  reached = std::max(reached, step);
  if (step > 0 && worker.rank < members_.size()) {
    members_[worker.rank].has_contributed = true;
  }
  max_step_ = std::max(max_step_, step);
}

void WorkerGroup::Close(Step step) {
  max_closed_ = std::max(max_closed_, step);
}

void WorkerGroup::LowerMaxStep(Step open) {
  max_step_ = std::max(max_closed_, open);
  for (uint32_t rank = 0; rank < steps_.size(); ++rank) {
    if (Needs(rank, UINT64_MAX)) max_step_ = std::max(max_step_, steps_[rank]);
  }
}

absl::string_view WorkerGroup::name_of(uint32_t rank) const {
  if (rank >= members_.size()) return "";
  return members_[rank].name;
}

Step WorkerGroup::step_of(uint32_t rank) const {
  return rank < steps_.size() ? steps_[rank] : 0;
}

Step WorkerGroup::first_step_of(uint32_t rank) const {
  return rank < members_.size() ? members_[rank].first_step : 0;
}

Step WorkerGroup::slowest_step() const {
  Step slowest = max_step_;
  for (uint32_t rank = 0; rank < end_rank(); ++rank) {
    if (IsAtWork(rank)) slowest = std::min(slowest, step_of(rank));
  }
  return slowest;
}

std::vector<uint32_t> WorkerGroup::NeededBelow(Step step) const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < end_rank(); ++rank) {
    if (IsAtWork(rank) && step_of(rank) < step) ranks.push_back(rank);
  }
  return ranks;
}

std::string WorkerGroup::Describe(absl::Span<const uint32_t> ranks,
                                  absl::Duration now) const {
  const absl::Span<const uint32_t> named = ranks.subspan(0, kMostRanksNamed);
  std::vector<std::string> remarks;
  for (const uint32_t rank : named) {
    if (StateOf(rank) == State::kLost) {
      const Member& member = members_[rank];
      remarks.push_back(absl::StrCat(
          "rank ", rank,
          member.says_it_is_lost ? " has failed " : " lost its lease ",
          Seconds(now - member.lease_end), " ago"));
    } else if (HasLeft(rank)) {
      remarks.push_back(absl::StrCat("rank ", rank, " has left"));
    } else if (has_joined_ && StateOf(rank) == State::kVacant) {
      remarks.push_back(absl::StrCat("rank ", rank, " has not joined"));
    }
  }
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                  absl::StrJoin(named, ", "));
  if (ranks.size() > named.size()) {
    absl::StrAppend(&text, " and ", ranks.size() - named.size(), " more");
  }
  if (!remarks.empty()) {
    absl::StrAppend(&text, " (", absl::StrJoin(remarks, ", "), ")");
  }
  return text;
}

absl::Status WorkerGroup::MissingError(absl::string_view subject,
                                       absl::Span<const uint32_t> ranks,
                                       absl::Duration now) const {
  return WithReason(absl::DeadlineExceededError(absl::StrCat(
                        subject, ": waiting for ", Describe(ranks, now))),
                    Reason::kWaitEnded, {{"ranks", absl::StrJoin(ranks, ",")}});
}

std::string WorkerGroup::DescribeLoss(uint32_t rank) const {
  const Member& member = members_[rank];
  return absl::StrCat("rank ", rank, " (", Quoted(member.name), ") ",
                      member.says_it_is_lost
                          ? "has failed"
                          : absl::StrCat("lost its lease of ",
                                         absl::FormatDuration(member.lease)));
}

absl::Status WorkerGroup::LeftError(absl::string_view subject,
                                    absl::Span<const uint32_t> ranks) const {
  const absl::Span<const uint32_t> named = ranks.subspan(0, kMostRanksNamed);
  const std::string names =
      absl::StrJoin(named, ", ", [this](std::string* out, uint32_t rank) {
        absl::StrAppend(out, "rank ", rank, " (", Quoted(members_[rank].name),
                        ")");
      });
  return absl::AbortedError(absl::StrCat(
      subject, ": ", names,
      ranks.size() > named.size()
          ? absl::StrCat(" and ", ranks.size() - named.size(), " more")
          : "",
      ranks.size() == 1 ? " has left" : " have left"));
}

std::vector<MemberStatus> WorkerGroup::List(absl::Duration now) const {
  std::vector<MemberStatus> statuses;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (member.epoch == 0) continue;
    const bool is_live = member.state == State::kLive;
    // Clients of mirrored groups ask what the rank has contributed to.
    const bool has_step = member.has_contributed || options_.is_local;
    statuses.push_back(
        {.name = member.name,
         .worker = {.rank = rank, .epoch = member.epoch},
         .live = is_live,
         .step = has_step ? step_of(rank) : 0,
         .lease_remaining =
             is_live ? std::max(member.lease_end - now, absl::ZeroDuration())
                     : absl::ZeroDuration(),
         .left = member.state == State::kLeft});
  }
  return statuses;
}

absl::Duration WorkerGroup::LeaseRemaining(const Worker& worker,
                                           absl::Duration now) const {
  return members_[worker.rank].lease_end - now;
}

uint32_t WorkerGroup::num_workers() const {
  return is_elastic() ? num_live_ : options_.max_workers;
}

}  // namespace tensorkv
