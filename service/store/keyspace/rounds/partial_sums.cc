// Sums of the contributions of a round that are made before it closes.

#include <algorithm>
#include <iterator>
#include <utility>

#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/keyspace/updates/row_batches.h"

namespace tensorkv {
namespace {

// Returns whether some of the contributions can be summed ahead of the others:
// a weighted sum of integers would take f64, of twice their size or more.
// REQUIRES: there are some.
bool MaySumAhead(const RoundPolicy& policy, const GatheringRound& round) {
  if (policy.aggregation != Aggregation::kMean) return true;
  const auto first = std::find_if(
      round.by_place.begin(), round.by_place.end(),
      [](const auto& entry) { return !entry.second.slots.empty(); });
  return IsFloat(first->second.slots.front().dtype);
}

// Returns the place of the first contribution before which others may come.
uint32_t EndOfLeading(const RoundPolicy& policy, const GatheringRound& round) {
  return policy.sum_order == SumOrder::kRank ? round.first_missing
                                             : round.num_arrived;
}

PartialSum StartPartialSum(Step step, GatheringRound& round, uint32_t end) {
  round.partial_end = end;
  PartialSum partial;
  partial.step = step;
  partial.id = round.id;
  for (const auto& [place, contribution] : round.by_place) {
    if (place >= end) break;
    partial.slots.insert(partial.slots.end(), contribution.slots.begin(),
                         contribution.slots.end());
  }
  return partial;
}

}  // namespace

double Rounds::ScaleOf(Step step, const Round& round) const {
  if (!round.rescales || round.is_scaled) return 1;
  const bool has_slots = std::any_of(
      round.by_place.begin(), round.by_place.end(),
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

size_t Rounds::min_partial_sum() const {
  return policy_.sum_order == SumOrder::kRank ? kMinPartialSum : 2;
}

std::optional<PartialSum> Rounds::BeginSum() {
  for (auto& [step, round] : open_) {
    if (round.partial_end > 0 || round.num_to_sum == 0) continue;
    const auto first =
        std::find_if(round.by_place.begin(), round.by_place.end(),
                     [](const auto& entry) { return entry.second.needs_sum; });
    round.partial_end = UINT32_MAX;
    PartialSum partial;
    partial.step = step;
    partial.id = round.id;
    partial.slots = first->second.slots;
    partial.place = first->first;
    partial.sum_reservation = std::move(first->second.sum_reservation);
    return partial;
  }
  return late_.BeginSum();
}

std::optional<PartialSum> Rounds::BeginPartialSum() {
  if (auto sum = BeginSum()) return sum;
  // Ranks in between are at other servers.
  if (policy_.exchanges) return std::nullopt;
  if (!Adds(policy_.aggregation)) return std::nullopt;
  for (auto& [step, round] : open_) {
    if (round.partial_end > 0 || IsComplete(step, round) ||
        round.num_leading_slots < min_partial_sum() ||
        !MaySumAhead(policy_, round)) {
      continue;
    }
    PartialSum partial =
        StartPartialSum(step, round, EndOfLeading(policy_, round));
    Contribution& first = round.by_place.begin()->second;
    if (policy_.sum_order == SumOrder::kArrival && first.is_partial_sum &&
        !HasRows(partial.slots)) {
      partial.adds_to_first = true;
      partial.sum_reservation = std::move(first.tensor_reservation);
    }
    return partial;
  }
  return std::nullopt;
}

std::optional<PartialSum> Rounds::BeginScaling() {
  for (auto& [step, round] : open_) {
    if (round.partial_end > 0 || round.num_to_sum > 0 ||
        !IsComplete(step, round)) {
      continue;
    }
    const double scale = ScaleOf(step, round);
    if (scale == 1) continue;
    PartialSum partial = StartPartialSum(step, round, UINT32_MAX);
    partial.scale = scale;
    return partial;
  }
  return std::nullopt;
}

// Rounds close in their order, so that later ones wait. Should the update of
// the last sum fail, that round comes again: then nobody may have been told of
// this one.
std::optional<PartialSum> Rounds::BeginExchange() {
  if (!policy_.exchanges || open_.empty()) return std::nullopt;
  const bool is_applied = std::all_of(
      closed_.begin(), closed_.end(),
      [](const Closed& each) { return each.version != 0 || each.all_skipped; });
  if (!is_applied) return std::nullopt;
  auto& [step, round] = *open_.begin();
  if (round.partial_end > 0 || round.num_to_sum > 0 || round.is_exchanged ||
      !IsComplete(step, round)) {
    return std::nullopt;
  }
  PartialSum partial = StartPartialSum(step, round, UINT32_MAX);
  partial.is_exchange = true;
  for (auto& [rank, contribution] : round.by_place) {
    partial.ranks.insert(partial.ranks.end(), contribution.slots.size(), rank);
    partial.decoded.Merge(std::move(contribution.decoded));
  }
  return partial;
}

std::optional<Step> Rounds::FirstToFail(const PartialSum& partial) const {
  if (partial.is_late) {
    return late_.Has(partial) ? std::optional(last_closed_ + 1) : std::nullopt;
  }
  return IsOpen(partial.step, partial.id) ? std::optional(partial.step)
                                          : std::nullopt;
}

ClosedRounds Rounds::EndPartialSum(const PartialSum& partial,
                                   std::optional<Contribution>& sum) {
  if (partial.is_late) {
    late_.EndSum(partial, sum);
    return CloseComplete();
  }
  if (!IsOpen(partial.step, partial.id)) return CloseComplete();
  Round& round = open_.find(partial.step)->second;
  const uint32_t partial_end = std::exchange(round.partial_end, 0);
  if (sum) {
    const auto first = partial.place ? round.by_place.find(*partial.place)
                                     : round.by_place.begin();
    const auto end = partial.place ? std::next(first)
                                   : round.by_place.lower_bound(partial_end);
    const uint32_t end_of_leading = EndOfLeading(policy_, round);
    const bool is_leading = first->first < end_of_leading;
    if (partial.place) --round.num_to_sum;
    for (auto summed = first; summed != end; ++summed) {
      Contribution& contribution = summed->second;
      if (summed->first < end_of_leading) {
        round.num_leading_slots -= contribution.slots.size();
      }
      round.overhead.Merge(contribution.overhead.Split(
          std::min(contribution.overhead.bytes(), kContributorBytes)));
    }
    if (is_leading) round.num_leading_slots += sum->slots.size();
    sum->overhead.Merge(std::move(first->second.overhead));
    first->second = *std::move(sum);
    round.by_place.erase(std::next(first), end);
    if (partial.scale != 1) round.is_scaled = true;
    if (partial.is_exchange) round.is_exchanged = true;
  }
  return CloseComplete();
}

}  // namespace tensorkv
