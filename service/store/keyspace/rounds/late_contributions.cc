#include "service/store/keyspace/rounds/late_contributions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

namespace tensorkv {
namespace {

// Returns what a contribution weighs that is carried over so many steps.
double Decayed(double weight, double decay, Step num_steps) {
  // The least weight that is not 0.
  constexpr double kLeastWeight = 1e-9;
  if (decay == 1) return weight;
  return std::max(kLeastWeight,
                  weight * std::pow(decay, static_cast<double>(num_steps)));
}

void TakeTensors(Contribution& contribution, ClosedRound& closed) {
  std::move(contribution.slots.begin(), contribution.slots.end(),
            std::back_inserter(closed.slots));
  closed.tensor_reservation.Merge(std::move(contribution.tensor_reservation));
  closed.overhead.Merge(std::move(contribution.overhead));
}

}  // namespace

Step LateContributions::first() const {
  Step first = UINT64_MAX;
  for (const auto& [place, late] : by_rank_) {
    first = std::min(first, place.second);
  }
  return first;
}

Step LateContributions::FirstOf(uint32_t rank) const {
  const auto first = by_rank_.lower_bound({rank, 0});
  const bool is_there = first != by_rank_.end() && first->first.first == rank;
  return is_there ? first->first.second : UINT64_MAX;
}

std::optional<Contributor> LateContributions::Find(uint32_t rank,
                                                   Step step) const {
  const auto late = by_rank_.find({rank, step});
  if (late == by_rank_.end()) return std::nullopt;
  return Contributor{rank, late->second.identity};
}

void LateContributions::Add(const Contributor& by, Step step,
                            Contribution contribution) {
  by_rank_.emplace(std::pair(by.rank, step),
                   Late{.id = ++last_id_,
                        .identity = by.identity,
                        .contribution = std::move(contribution)});
}

bool LateContributions::AwaitsSum(Step end) const {
  return std::any_of(by_rank_.begin(), by_rank_.end(), [end](const auto& each) {
    return each.first.second < end && each.second.contribution.needs_sum;
  });
}

std::optional<PartialSum> LateContributions::BeginSum() {
  for (auto& [place, late] : by_rank_) {
    if (late.is_summing || !late.contribution.needs_sum) continue;
    late.is_summing = true;
    PartialSum partial;
    partial.step = place.second;
    partial.id = late.id;
    partial.slots = late.contribution.slots;
    partial.place = place.first;
    partial.is_late = true;
    partial.sum_reservation = std::move(late.contribution.sum_reservation);
    return partial;
  }
  return std::nullopt;
}

bool LateContributions::Has(const PartialSum& partial) const {
  const auto late = by_rank_.find({*partial.place, partial.step});
  return late != by_rank_.end() && late->second.id == partial.id;
}

void LateContributions::EndSum(const PartialSum& partial,
                               std::optional<Contribution>& sum) {
  if (!sum || !Has(partial)) return;
  Late& late = by_rank_.find({*partial.place, partial.step})->second;
  late.is_summing = false;
  sum->overhead.Merge(std::move(late.contribution.overhead));
  late.contribution = *std::move(sum);
}

void LateContributions::MoveTo(ClosedRound& closed,
                               absl::Span<RememberedRound> remembered,
                               std::vector<TakenContribution>& taken) {
  for (auto it = by_rank_.begin(); it != by_rank_.end();) {
    const auto [rank, step] = it->first;
    if (step >= closed.step) {
      ++it;
      continue;
    }
    Late& late = it->second;
    for (Slot& slot : late.contribution.slots) {
      slot.weight =
          Decayed(slot.weight, policy_.staleness_decay, closed.step - step);
    }
    for (RememberedRound& round : remembered) {
      if (round.step != step) continue;
      Reservation& overhead = late.contribution.overhead;
      if (!round.late) round.late = std::make_unique<LateContributors>();
      round.late->Add({{rank, late.identity}, closed.step});
      round.late->overhead.Merge(
          overhead.Split(std::min(overhead.bytes(), kContributorBytes)));
    }
    const Slots& slots = late.contribution.slots;
    taken.push_back({.rank = rank,
                     .has_skipped = slots.empty(),
                     .carried_from = step,
                     .weight = slots.empty() ? 1 : slots.front().weight});
    policy_.shared->records.LateContribution(step, rank,
                                             StepRecords::LateFate::kTaken);
    TakeTensors(late.contribution, closed);
    it = by_rank_.erase(it);
  }
}

std::vector<std::pair<uint32_t, Step>> LateContributions::RanksAndSteps()
    const {
  std::vector<std::pair<uint32_t, Step>> all;
  for (const auto& each : by_rank_) all.push_back(each.first);
  return all;
}

std::vector<std::pair<uint32_t, Step>> LateContributions::Drop(
    absl::FunctionRef<bool(Step)> stays, ClosedRounds& dropped) {
  std::vector<std::pair<uint32_t, Step>> places;
  for (auto it = by_rank_.begin(); it != by_rank_.end();) {
    const auto [rank, step] = it->first;
    if (stays(step)) {
      ++it;
      continue;
    }
    ClosedRound& taken = dropped.emplace_back();
    taken.step = step;
    TakeTensors(it->second.contribution, taken);
    places.emplace_back(rank, step);
    it = by_rank_.erase(it);
  }
  return places;
}

}  // namespace tensorkv
