// Sums of the contributions of a round that are made before it closes.

#include <algorithm>
#include <iterator>
#include <utility>

#include "service/store/keyspace/rounds.h"

namespace tensorkv {

double Rounds::ScaleOf(Step step, const Round& round) const {
  if (!policy_.rescales || round.is_scaled) return 1;
  const bool has_slots = std::any_of(
      round.by_rank.begin(), round.by_rank.end(),
      [](const auto& entry) { return !entry.second.slots.empty(); });
  if (!has_slots) return 1;
  size_t full_size = round.contributors.size();
  for (uint32_t rank = 0; rank < policy_.workers->end_rank(); ++rank) {
    if (!round.contributors.contains(rank) &&
        policy_.workers->CountsIn(rank, step)) {
      ++full_size;
    }
  }
  return static_cast<double>(full_size) /
         static_cast<double>(round.contributors.size());
}

std::optional<Fold> Rounds::BeginSum() {
  for (auto& [step, round] : open_) {
    if (round.fold_end > 0 || round.num_to_sum == 0) continue;
    const auto first =
        std::find_if(round.by_rank.begin(), round.by_rank.end(),
                     [](const auto& entry) { return entry.second.needs_sum; });
    round.fold_end = UINT32_MAX;
    Fold fold;
    fold.step = step;
    fold.id = round.id;
    fold.slots = first->second.slots;
    fold.rank = first->first;
    fold.room = std::move(first->second.sum_room);
    return fold;
  }
  return std::nullopt;
}

std::optional<Fold> Rounds::BeginFold() {
  if (auto sum = BeginSum()) return sum;
  // Ranks in between are at other servers.
  if (policy_.exchanges) return std::nullopt;
  if (policy_.aggregation != Aggregation::kSum) return std::nullopt;
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
    if (round.fold_end > 0 || round.num_to_sum > 0 || !IsComplete(round)) {
      continue;
    }
    const double scale = ScaleOf(step, round);
    if (scale == 1) continue;
    Fold fold = StartFold(step, round, UINT32_MAX);
    fold.scale = scale;
    return fold;
  }
  return std::nullopt;
}

// Rounds close in their order, so that later ones wait. Should the update of
// the last sum fail, that round comes again: then nobody may have been told of
// this one.
std::optional<Fold> Rounds::BeginExchange() {
  if (!policy_.exchanges || open_.empty()) return std::nullopt;
  const bool is_applied = std::all_of(
      closed_.begin(), closed_.end(),
      [](const Closed& each) { return each.version != 0 || each.all_skipped; });
  if (!is_applied) return std::nullopt;
  auto& [step, round] = *open_.begin();
  if (round.fold_end > 0 || round.num_to_sum > 0 || round.is_exchanged ||
      !IsComplete(round)) {
    return std::nullopt;
  }
  Fold fold = StartFold(step, round, UINT32_MAX);
  fold.is_exchange = true;
  for (auto& [rank, contribution] : round.by_rank) {
    fold.ranks.insert(fold.ranks.end(), contribution.slots.size(), rank);
    fold.decoded.Merge(std::move(contribution.decoded));
  }
  return fold;
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
                             std::optional<Contribution>& sum) {
  if (!IsOpen(fold.step, fold.id)) return TakeComplete();
  Round& round = open_.find(fold.step)->second;
  const uint32_t fold_end = std::exchange(round.fold_end, 0);
  if (sum) {
    const auto first =
        fold.rank ? round.by_rank.find(*fold.rank) : round.by_rank.begin();
    const auto end =
        fold.rank ? std::next(first) : round.by_rank.lower_bound(fold_end);
    const bool is_leading = first->first < round.first_missing;
    if (fold.rank) --round.num_to_sum;
    for (auto folded = first; folded != end; ++folded) {
      Contribution& contribution = folded->second;
      if (folded->first < round.first_missing) {
        round.num_leading_slots -= contribution.slots.size();
      }
      round.overhead.Merge(contribution.overhead.Split(
          std::min(contribution.overhead.bytes(), kContributorBytes)));
    }
    if (is_leading) round.num_leading_slots += sum->slots.size();
    sum->overhead.Merge(std::move(first->second.overhead));
    first->second = *std::move(sum);
    round.by_rank.erase(std::next(first), end);
    if (fold.scale != 1) round.is_scaled = true;
    if (fold.is_exchange) round.is_exchanged = true;
  }
  return TakeComplete();
}

}  // namespace tensorkv
