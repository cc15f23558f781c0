#include "service/store/rounds.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

std::string Name(Step step, absl::string_view key) {
  return absl::StrCat("round ", step, " of ", Quoted(key));
}

// Of all keys, so that no round is taken for one of a key that was replaced.
uint64_t NextId() {
  static std::atomic<uint64_t> last_id = 0;
  return ++last_id;
}

}  // namespace

bool Rounds::IsClosed(Step step) const {
  if (step <= last_closed_) return true;
  const auto round = open_.find(step);
  // It only waits for its sum.
  return round != open_.end() && IsComplete(round->second);
}

bool Rounds::HasContributed(uint32_t rank, Step step) const {
  const auto round = open_.find(step);
  return round != open_.end() && round->second.by_rank.contains(rank);
}

absl::Status Rounds::Check(absl::string_view key, uint32_t rank,
                           Step step) const {
  if (step <= last_closed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(step, key), ": expected a step above ", last_closed_,
                     ", which is closed"));
  }
  if (HasContributed(rank, step)) {
    return absl::AlreadyExistsError(absl::StrCat(
        Name(step, key), ": worker ", rank, " has contributed already"));
  }
  if (IsClosed(step)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(step, key),
                     ": expected a later step, as the round "
                     "has closed without worker ",
                     rank));
  }
  if (!policy_.workers->TakesPart(rank, step)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(step, key), ": worker ", rank,
                     " has joined after that step; expected a step above ",
                     policy_.workers->step_of(rank)));
  }
  return CheckOrder(key, rank, step);
}

absl::Status Rounds::CheckOrder(absl::string_view key, uint32_t rank,
                                Step step) const {
  for (const auto& [open_step, round] : open_) {
    if (open_step >= step) break;
    if (!round.by_rank.contains(rank) &&
        policy_.workers->TakesPart(rank, open_step) && !IsComplete(round)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Name(step, key), ": expected worker ", rank,
                       " to contribute to step ", open_step, " first"));
    }
  }
  if (open_.contains(step)) return absl::OkStatus();
  if (!open_.empty() && step < open_.rbegin()->first) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(step, key), ": other workers have passed to step ",
                     open_.rbegin()->first));
  }
  if (open_.size() >= policy_.max_open) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Name(step, key), ": expected at most ", policy_.max_open,
                     " open rounds, got one more"));
  }
  return absl::OkStatus();
}

ClosedRounds Rounds::Add(uint32_t rank, Step step, Contribution contribution,
                         Reservation room) {
  const auto [it, is_new] = open_.try_emplace(step);
  Round& round = it->second;
  if (is_new) {
    round.id = NextId();
    round.room = std::move(room);
  }
  round.by_rank.emplace(rank, std::move(contribution));
  return TakeComplete();
}

ClosedRounds Rounds::EndGrace(Step step, uint64_t id) {
  const auto it = open_.find(step);
  if (it == open_.end() || it->second.id != id) return {};
  it->second.is_grace_over = true;
  return TakeComplete();
}

ClosedRounds Rounds::TakeComplete() {
  ClosedRounds closed;
  for (auto& [step, round] : open_) Advance(step, round);
  while (!open_.empty()) {
    const auto first = open_.begin();
    const Round& round = first->second;
    if (!IsComplete(round) || round.fold_end > 0 ||
        ScaleOf(first->first, round) != 1)
      break;
    last_closed_ = first->first;
    closed.push_back(
        Close(last_closed_, std::move(open_.extract(first).mapped())));
  }
  return closed;
}

void Rounds::Advance(Step step, Round& round) const {
  const WorkerGroup& workers = *policy_.workers;
  const uint32_t end = workers.end_rank();
  for (; round.first_missing < end; ++round.first_missing) {
    const auto contribution = round.by_rank.find(round.first_missing);
    if (contribution != round.by_rank.end()) {
      round.num_leading_slots += contribution->second.slots.size();
    } else if (workers.Needs(round.first_missing, step)) {
      return;
    }
  }
}

bool Rounds::IsComplete(const Round& round) const {
  return round.first_missing >= policy_.workers->end_rank() ||
         (policy_.quorum > 0 && round.is_grace_over &&
          round.by_rank.size() >= policy_.quorum);
}

double Rounds::ScaleOf(Step step, const Round& round) const {
  if (!policy_.rescales || round.is_scaled) return 1;
  const bool has_slots = std::any_of(
      round.by_rank.begin(), round.by_rank.end(),
      [](const auto& entry) { return !entry.second.slots.empty(); });
  if (!has_slots) return 1;
  size_t full_size = round.by_rank.size();
  for (uint32_t rank = 0; rank < policy_.workers->end_rank(); ++rank) {
    if (!round.by_rank.contains(rank) &&
        policy_.workers->CountsIn(rank, step)) {
      ++full_size;
    }
  }
  return static_cast<double>(full_size) /
         static_cast<double>(round.by_rank.size());
}

ClosedRounds Rounds::FailWithout(uint32_t rank) {
  // A worker contributes in the order of steps, so that it is missing in all
  // rounds from the first on that lacks it.
  const auto first = std::find_if(
      open_.begin(), open_.end(), [&](const OpenRounds::value_type& entry) {
        return policy_.workers->Needs(rank, entry.first) &&
               !entry.second.by_rank.contains(rank) &&
               !IsComplete(entry.second);
      });
  return Drop(first, open_.end());
}

ClosedRounds Rounds::Fail(Step step, uint64_t id) {
  const auto it = open_.find(step);
  if (it == open_.end() || it->second.id != id) return {};
  return Drop(it, open_.end());
}

ClosedRounds Rounds::FailAfter(Step step) {
  return Drop(open_.upper_bound(step), open_.end());
}

ClosedRounds Rounds::FailAll() { return Drop(open_.begin(), open_.end()); }

ClosedRounds Rounds::Drop(OpenRounds::iterator first,
                          OpenRounds::iterator last) {
  ClosedRounds dropped;
  for (auto it = first; it != last; ++it) {
    dropped.push_back(Close(it->first, std::move(it->second)));
  }
  open_.erase(first, last);
  return dropped;
}

std::optional<Fold> Rounds::BeginFold() {
  for (auto& [step, round] : open_) {
    if (round.fold_end > 0 || IsComplete(round) ||
        round.num_leading_slots < kMinFold) {
      continue;
    }
    return StartFold(step, round, round.first_missing);
  }
  return std::nullopt;
}

std::optional<Fold> Rounds::BeginScaling() {
  for (auto& [step, round] : open_) {
    if (round.fold_end > 0 || !IsComplete(round)) continue;
    const double scale = ScaleOf(step, round);
    if (scale == 1) continue;
    Fold fold = StartFold(step, round, UINT32_MAX);
    fold.scale = scale;
    return fold;
  }
  return std::nullopt;
}

Fold Rounds::StartFold(Step step, Round& round, uint32_t end) const {
  round.fold_end = end;
  Fold fold;
  fold.step = step;
  fold.id = round.id;
  for (const auto& [rank, contribution] : round.by_rank) {
    if (rank >= end) break;
    fold.slots.insert(fold.slots.end(), contribution.slots.begin(),
                      contribution.slots.end());
  }
  return fold;
}

ClosedRounds Rounds::EndFold(const Fold& fold,
                             std::optional<Contribution> sum) {
  const auto it = open_.find(fold.step);
  if (it == open_.end() || it->second.id != fold.id) return TakeComplete();
  Round& round = it->second;
  const uint32_t fold_end = std::exchange(round.fold_end, 0);
  if (sum) {
    for (auto& [rank, folded] : round.by_rank) {
      if (rank >= fold_end) break;
      if (rank < round.first_missing) {
        round.num_leading_slots -= folded.slots.size();
      }
      folded.slots.clear();
      folded.held.Clear();
    }
    round.num_leading_slots += sum->slots.size();
    Contribution& first = round.by_rank.begin()->second;
    first.slots = std::move(sum->slots);
    first.held = std::move(sum->held);
    if (fold.scale != 1) round.is_scaled = true;
  }
  return TakeComplete();
}

ClosedRound Rounds::Close(Step step, Round round) {
  ClosedRound closed;
  closed.step = step;
  closed.room = std::move(round.room);
  for (auto& [rank, contribution] : round.by_rank) {
    std::move(contribution.slots.begin(), contribution.slots.end(),
              std::back_inserter(closed.slots));
    closed.held.Merge(std::move(contribution.held));
    closed.overhead.Merge(std::move(contribution.overhead));
    closed.ranks.push_back(rank);
  }
  return closed;
}

bool Rounds::IsOf(uint32_t rank, const OpenRounds::value_type& round) const {
  return round.second.by_rank.contains(rank) &&
         policy_.workers->TakesPart(rank, round.first);
}

bool Rounds::HasOpenRoundOf(uint32_t rank) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& round) { return IsOf(rank, round); });
}

std::vector<uint32_t> Rounds::Missing(Step step, const Round& round) const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < policy_.workers->end_rank(); ++rank) {
    if (!round.by_rank.contains(rank) && policy_.workers->Needs(rank, step)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::string Rounds::DescribeOpenRoundOf(uint32_t rank, absl::string_view key,
                                        absl::Duration now) const {
  for (const auto& entry : open_) {
    if (!IsOf(rank, entry)) continue;
    const auto& [step, round] = entry;
    const std::vector<uint32_t> missing = Missing(step, round);
    if (missing.empty()) {
      return absl::StrCat(Name(step, key), ": its sum is under way");
    }
    return absl::StrCat(Name(step, key), ": waiting for ",
                        policy_.workers->Describe(missing, now));
  }
  return "";
}

void Rounds::Reopen(Step step) {
  if (last_closed_ == step) last_closed_ = step - 1;
}

}  // namespace tensorkv
