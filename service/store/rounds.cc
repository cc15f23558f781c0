#include "service/store/rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

std::string Name(Step step, absl::string_view key) {
  return absl::StrCat("round ", step, " of ", Quoted(key));
}

}  // namespace

absl::Status Rounds::Check(absl::string_view key, uint32_t rank,
                           Step step) const {
  if (step <= last_closed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(step, key), ": expected a step above ", last_closed_,
                     ", which is closed"));
  }
  for (const auto& [open_step, round] : open_) {
    if (open_step >= step) break;
    if (!round.by_rank.contains(rank)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Name(step, key), ": expected worker ", rank,
                       " to contribute to step ", open_step, " first"));
    }
  }
  const auto round = open_.find(step);
  if (round != open_.end()) {
    if (!round->second.by_rank.contains(rank)) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(
        Name(step, key), ": worker ", rank, " has contributed already"));
  }
  if (!open_.empty() && step < open_.rbegin()->first) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(step, key), ": other workers have passed to step ",
                     open_.rbegin()->first));
  }
  if (open_.size() >= max_open_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Name(step, key), ": expected at most ", max_open_,
                     " open rounds, got one more"));
  }
  return absl::OkStatus();
}

std::optional<ClosedRound> Rounds::Add(uint32_t rank, Step step,
                                       Contribution contribution,
                                       Reservation room) {
  const auto [it, is_new] = open_.try_emplace(step);
  Round& round = it->second;
  if (is_new) {
    round.room = std::move(room);
  }
  round.by_rank.emplace(rank, std::move(contribution));
  for (auto next = round.by_rank.find(round.first_missing);
       next != round.by_rank.end() && next->first == round.first_missing;
       ++next) {
    round.num_leading_slots += next->second.slots.size();
    ++round.first_missing;
  }
  return CloseIfComplete(step);
}

std::optional<ClosedRound> Rounds::CloseIfComplete(Step step) {
  const auto it = open_.find(step);
  const Round& round = it->second;
  if (round.by_rank.size() < num_workers_ || round.fold_end > 0) {
    return std::nullopt;
  }
  last_closed_ = step;
  return Close(step, std::move(open_.extract(it).mapped()));
}

std::optional<Fold> Rounds::BeginFold(Step step) {
  const auto it = open_.find(step);
  if (it == open_.end()) return std::nullopt;
  Round& round = it->second;
  if (round.fold_end > 0 || round.num_leading_slots < kMinFold) {
    return std::nullopt;
  }
  round.fold_end = round.first_missing;
  Fold fold;
  fold.step = step;
  for (uint32_t rank = 0; rank < round.fold_end; ++rank) {
    const Slots& slots = round.by_rank.at(rank).slots;
    fold.slots.insert(fold.slots.end(), slots.begin(), slots.end());
  }
  return fold;
}

std::optional<ClosedRound> Rounds::EndFold(Step step,
                                           std::optional<Contribution> sum) {
  Round& round = open_.find(step)->second;
  const uint32_t fold_end = std::exchange(round.fold_end, 0);
  if (sum) {
    for (uint32_t rank = 0; rank < fold_end; ++rank) {
      Contribution& folded = round.by_rank.at(rank);
      round.num_leading_slots -= folded.slots.size();
      folded.slots.clear();
      folded.held.Clear();
    }
    round.num_leading_slots += sum->slots.size();
    Contribution& first = round.by_rank.at(0);
    first.slots = std::move(sum->slots);
    first.held = std::move(sum->held);
  }
  return CloseIfComplete(step);
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
  }
  return closed;
}

bool Rounds::HasOpenRoundOf(uint32_t rank) const {
  return std::any_of(open_.begin(), open_.end(), [rank](const auto& entry) {
    return entry.second.by_rank.contains(rank);
  });
}

std::string Rounds::DescribeOpenRoundOf(uint32_t rank,
                                        absl::string_view key) const {
  for (const auto& [step, round] : open_) {
    if (!round.by_rank.contains(rank)) continue;
    std::vector<uint32_t> missing;
    for (uint32_t other = 0; other < num_workers_; ++other) {
      if (!round.by_rank.contains(other)) missing.push_back(other);
    }
    return absl::StrCat(Name(step, key), ": waiting for rank",
                        missing.size() == 1 ? " " : "s ",
                        absl::StrJoin(missing, ", "));
  }
  return "";
}

void Rounds::Reopen(Step step) {
  if (last_closed_ == step) last_closed_ = step - 1;
}

std::vector<std::pair<Step, std::vector<uint32_t>>> Rounds::Contributors()
    const {
  std::vector<std::pair<Step, std::vector<uint32_t>>> contributors;
  for (const auto& [step, round] : open_) {
    std::vector<uint32_t>& ranks = contributors.emplace_back().second;
    contributors.back().first = step;
    for (const auto& [rank, contribution] : round.by_rank) {
      ranks.push_back(rank);
    }
  }
  return contributors;
}

}  // namespace tensorkv
