#include "service/store/keyspace/rounds/rounds_to_repush.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/reason.h"
#include "service/store/keyspace/rounds/round_outcomes.h"

namespace tensorkv {
namespace {

absl::Status RoundFailed(absl::string_view key, Step step,
                         const RoundFailure& failure) {
  const bool is_own = failure.step == 0 || failure.step == step;
  const absl::Status failed = absl::AbortedError(absl::StrCat(
      RoundName(step, key), " failed",
      is_own ? "" : absl::StrCat(" with that of step ", failure.step), ": ",
      failure.text));
  const std::string ranks = absl::StrJoin(failure.ranks, ",");
  if (failure.came.empty() || !is_own) {
    return WithReason(failed, Reason::kRoundFailed,
                      {{"key", key}, {"step", step}, {"ranks", ranks}});
  }
  return WithReason(failed, Reason::kRoundFailed,
                    {{"key", key},
                     {"step", step},
                     {"ranks", ranks},
                     {"came", absl::StrJoin(failure.came, ",")}});
}

}  // namespace

bool RoundsToRepush::Has(Step step, uint32_t rank) const {
  const auto repush = by_step_.find(step);
  return repush != by_step_.end() &&
         std::binary_search(repush->second.ranks.begin(),
                            repush->second.ranks.end(), rank);
}

std::vector<Step> RoundsToRepush::Steps() const {
  std::vector<Step> steps;
  for (const auto& [step, repush] : by_step_) steps.push_back(step);
  return steps;
}

absl::Status RoundsToRepush::CheckNothing(absl::string_view key, uint32_t rank,
                                          Step end) const {
  for (const auto& [step, repush] : by_step_) {
    if (step >= end) break;
    if (!std::binary_search(repush.ranks.begin(), repush.ranks.end(), rank)) {
      continue;
    }
    return RoundFailed(key, step, *repush.failure);
  }
  return absl::OkStatus();
}

void RoundsToRepush::Add(Step step, uint32_t rank,
                         const RoundFailurePtr& failure) {
  if (!policy_.workers->Needs(rank, step)) return;
  Repush& repush = by_step_[step];
  repush.failure = failure;
  const auto place =
      std::lower_bound(repush.ranks.begin(), repush.ranks.end(), rank);
  if (place != repush.ranks.end() && *place == rank) return;
  repush.ranks.insert(place, rank);
  policy_.shared->to_repush.Add(rank, step);
}

void RoundsToRepush::AddOverhead(Step step, Reservation overhead) {
  const auto repush = by_step_.find(step);
  if (repush == by_step_.end()) return;
  repush->second.overhead.Merge(std::move(overhead));
}

RoundsToRepush::ByStep::iterator RoundsToRepush::Clear(ByStep::iterator repush,
                                                       uint32_t rank) {
  std::vector<uint32_t>& ranks = repush->second.ranks;
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (place != ranks.end() && *place == rank) {
    ranks.erase(place);
    policy_.shared->to_repush.Remove(rank, repush->first);
  }
  return ranks.empty() ? by_step_.erase(repush) : std::next(repush);
}

void RoundsToRepush::Clear(Step step, uint32_t rank) {
  const auto repush = by_step_.find(step);
  if (repush != by_step_.end()) Clear(repush, rank);
}

void RoundsToRepush::ClearAllOf(uint32_t rank) {
  for (auto repush = by_step_.begin(); repush != by_step_.end();) {
    repush = Clear(repush, rank);
  }
}

void RoundsToRepush::ClearUpTo(Step last, absl::FunctionRef<bool(Step)> stays) {
  for (auto repush = by_step_.begin();
       repush != by_step_.end() && repush->first <= last;) {
    if (stays(repush->first)) {
      ++repush;
      continue;
    }
    for (const uint32_t rank : repush->second.ranks) {
      policy_.shared->to_repush.Remove(rank, repush->first);
    }
    repush = by_step_.erase(repush);
  }
}

}  // namespace tensorkv
