#include "service/store/keyspace/rounds/rounds.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

using LateFate = StepRecords::LateFate;

// Rounds of all keys have different ids, so that none is taken for one of a key
// that was replaced.
uint64_t NextId() {
  static std::atomic<uint64_t> last_id = 0;
  return ++last_id;
}

// Returns what contributions weigh together, if the rule gets their weighted
// mean: a single one is its own mean.
std::optional<double> WeightOf(Aggregation aggregation, const Slots& slots) {
  if (aggregation != Aggregation::kMean || slots.empty()) return std::nullopt;
  if (slots.size() == 1 && !slots.front().is_weighted) return std::nullopt;
  return TotalWeight(slots);
}

// Takes out what the round has.
ClosedRound TakeOut(Step step, GatheringRound& round) {
  ClosedRound taken;
  taken.step = step;
  taken.value_reservation = std::move(round.value_reservation);
  taken.overhead = std::move(round.overhead);
  for (auto& [place, contribution] : round.by_place) {
    std::move(contribution.slots.begin(), contribution.slots.end(),
              std::back_inserter(taken.slots));
    taken.tensor_reservation.Merge(std::move(contribution.tensor_reservation));
    taken.overhead.Merge(std::move(contribution.overhead));
  }
  return taken;
}

// Returns how many of so many contributions are averaged. A single one is its
// own sum.
uint32_t NumAveraged(const RoundPolicy& policy, size_t num_contributions) {
  if (Adds(policy.aggregation) || num_contributions < 2) return 0;
  const auto size = static_cast<uint32_t>(num_contributions);
  uint32_t num_trimmed = (size - 1) / 2;
  if (policy.aggregation == Aggregation::kTrimmedMean) {
    // So that 0.29 of 100, whose product is below 29, are 29.
    constexpr double kAboveRounding = 1 + 1e-12;
    const double trimmed = policy.trim_fraction * size * kAboveRounding;
    num_trimmed = std::min(num_trimmed, static_cast<uint32_t>(trimmed));
  }
  return size - 2 * num_trimmed;
}

// Returns the contributors, shared with the round before if they are equal.
RefPtr<const Contributors> ContributorsOf(const RoundPolicy& policy,
                                          const GatheringRound& round,
                                          Reservation& overhead) {
  std::vector<Contributor> by_rank;
  by_rank.reserve(round.contributors.size());
  for (const auto& [rank, member] : round.contributors) {
    by_rank.push_back({rank, member.identity});
  }
  RefPtr<const Contributors>& last = policy.shared->contributors;
  if (!last || last->by_rank != by_rank) {
    const uint64_t bytes =
        std::min(overhead.bytes(), by_rank.size() * kContributorBytes);
    last = MakeRefCounted<const Contributors>(std::move(by_rank),
                                              overhead.Split(bytes));
  }
  return last;
}

StepRecords& RecordsOf(const RoundPolicy& policy) {
  return policy.shared->records;
}

// Return who has contributed.
std::vector<uint32_t> RanksOf(const GatheringRound& round) {
  std::vector<uint32_t> ranks;
  for (const auto& [rank, member] : round.contributors) ranks.push_back(rank);
  return ranks;
}
std::vector<uint32_t> RanksOf(const RememberedRound& round) {
  std::vector<uint32_t> ranks;
  for (const Contributor& each : round.contributors->by_rank) {
    ranks.push_back(each.rank);
  }
  return ranks;
}

absl::Span<const LateContributor> LateOf(const RememberedRound& round) {
  if (!round.late) return {};
  return round.late->all;
}

}  // namespace

std::string RoundName(Step step, absl::string_view key) {
  return absl::StrCat("round ", step, " of ", Quoted(key));
}

Rounds::Rounds(const RoundPolicy* policy, Reservation overhead,
               absl::string_view key)
    : policy_(*policy),
      overhead_(std::move(overhead)),
      key_(key),
      late_(policy),
      repushes_(policy) {}

uint64_t Rounds::BytesFor(const RoundPolicy& policy) {
  return sizeof(Rounds) + (policy.max_open + 1) * sizeof(Closed);
}

bool Rounds::IsClosed(Step step) const {
  if (step <= last_closed_) return true;
  const auto round = open_.find(step);
  // It only waits for its sum.
  return round != open_.end() && IsComplete(step, round->second);
}

const Rounds::Closed* Rounds::FindClosed(Step step) const {
  const auto closed =
      std::find_if(closed_.begin(), closed_.end(),
                   [step](const Closed& each) { return each.step == step; });
  return closed == closed_.end() ? nullptr : &*closed;
}

std::optional<Contributor> Rounds::FindContributor(
    uint32_t rank, Step step, RoundOfContribution& round) const {
  round = {step};
  if (const auto open = open_.find(step); open != open_.end()) {
    const auto contributor = open->second.contributors.find(rank);
    if (contributor != open->second.contributors.end()) {
      return Contributor{rank, contributor->second.identity};
    }
  }
  if (const Closed* const closed = FindClosed(step)) {
    round.version = closed->version;
    const Contributor* const found = closed->contributors->Find(rank);
    if (found != nullptr) return *found;
    const LateContributor* const late =
        closed->late ? closed->late->Find(rank) : nullptr;
    if (late != nullptr) {
      const Closed* const taken_by = FindClosed(late->taken_by);
      round = {late->taken_by, taken_by == nullptr ? 0 : taken_by->version};
      return late->by;
    }
  }
  round = {HolderOf(step)};
  return late_.Find(rank, step);
}

Step Rounds::HolderOf(Step step) const {
  if (!IsClosed(step)) return step;
  const auto next = open_.upper_bound(step);
  return next == open_.end() ? std::max(step, last_closed_) + 1 : next->first;
}

bool Rounds::MayCarry(Step step) const {
  if (!policy_.carries || !IsClosed(step)) return false;
  if (step > last_closed_) return true;
  const auto num_closed =
      std::count_if(closed_.begin(), closed_.end(),
                    [step](const Closed& each) { return each.step >= step; });
  return FindClosed(step) != nullptr &&
         static_cast<uint64_t>(num_closed) <= policy_.max_open;
}

ClosedRounds Rounds::Add(const Contributor& by, Step step,
                         Contribution contribution,
                         Reservation value_reservation) {
  KeepSteps();
  repushes_.Clear(step, by.rank);
  if (IsClosed(step)) {
    late_.Add(by, step, std::move(contribution));
    RecordsOf(policy_).LateContribution(step, by.rank, LateFate::kCarried);
    return CloseComplete();
  }
  const auto [it, is_new] = open_.try_emplace(step);
  Round& round = it->second;
  if (is_new) {
    round.id = NextId();
    round.rescales = policy_.rescales;
    round.value_reservation = std::move(value_reservation);
  }
  Round::Member& member = round.contributors[by.rank];
  member.identity = by.identity;
  if (!contribution.slots.empty()) {
    member.weight = contribution.slots.front().weight;
  }
  if (contribution.needs_sum) ++round.num_to_sum;
  const uint32_t place = round.num_arrived++;
  const bool is_in_rank_order = policy_.sum_order == SumOrder::kRank;
  if (!is_in_rank_order) round.num_leading_slots += contribution.slots.size();
  round.by_place.emplace(is_in_rank_order ? by.rank : place,
                         std::move(contribution));
  return CloseComplete();
}

ClosedRounds Rounds::EndGrace(Step step, uint64_t id) {
  if (!IsOpen(step, id)) return {};
  open_.find(step)->second.is_grace_over = true;
  return CloseComplete();
}

ClosedRounds Rounds::CloseComplete() {
  KeepSteps();
  ClosedRounds closed;
  for (auto& [step, round] : open_) Advance(step, round);
  while (!open_.empty()) {
    const auto first = open_.begin();
    if (!MayClose(first->first, first->second)) break;
    const Step step = first->first;
    closed.push_back(Close(step, std::move(open_.extract(first).mapped())));
  }
  return closed;
}

void Rounds::Advance(Step step, Round& round) const {
  const WorkerGroup& workers = *policy_.workers;
  const uint32_t end = workers.end_rank();
  if (HasQuorum(step, round) && LacksOnlyThoseWhoLeft(step, round)) {
    round.is_grace_over = true;
  }
  for (; round.first_missing < end; ++round.first_missing) {
    const bool is_there = round.contributors.contains(round.first_missing);
    if (!is_there && workers.Needs(round.first_missing, step)) return;
    if (!is_there || policy_.sum_order != SumOrder::kRank) continue;
    const auto contribution = round.by_place.find(round.first_missing);
    if (contribution != round.by_place.end()) {
      round.num_leading_slots += contribution->second.slots.size();
    }
  }
}

bool Rounds::IsComplete(Step step, const Round& round) const {
  if (round.first_missing >= policy_.workers->end_rank()) return true;
  return round.is_grace_over && HasQuorum(step, round);
}

bool Rounds::HasQuorum(Step step, const Round& round) const {
  const uint32_t quorum = policy_.QuorumOf(step);
  return quorum > 0 && round.contributors.size() >= quorum;
}

bool Rounds::IsOpen(Step step, uint64_t id) const {
  const auto round = open_.find(step);
  return round != open_.end() && round->second.id == id;
}

std::vector<std::pair<Step, uint64_t>> Rounds::OpenIds() const {
  std::vector<std::pair<Step, uint64_t>> ids;
  for (const auto& [step, round] : open_) ids.emplace_back(step, round.id);
  return ids;
}

bool Rounds::LacksOnlyThoseWhoLeft(Step step, const Round& round) const {
  if (!policy_.workers->LacksThoseWhoLeft()) return false;
  return policy_.workers->HaveLeftSinceAny(Missing(step, round),
                                           RanksOf(round));
}

bool Rounds::MayClose(Step step, const Round& round) const {
  return IsComplete(step, round) && round.partial_end == 0 &&
         round.num_to_sum == 0 && !late_.AwaitsSum(step) &&
         ScaleOf(step, round) == 1 &&
         (round.is_exchanged || !policy_.exchanges);
}

std::optional<Step> Rounds::FirstWithout(
    absl::Span<const uint32_t> ranks) const {
  for (const auto& [step, round] : open_) {
    if (IsComplete(step, round)) continue;
    // Ranks below the first that is missing are there, or not needed.
    for (auto rank =
             std::lower_bound(ranks.begin(), ranks.end(), round.first_missing);
         rank != ranks.end(); ++rank) {
      if (!round.contributors.contains(*rank) &&
          policy_.workers->Needs(*rank, step)) {
        return step;
      }
    }
  }
  return std::nullopt;
}

FailedRounds Rounds::FailFrom(Step step, const RoundFailurePtr& failure) {
  KeepSteps();
  FailedRounds failed;
  for (auto it = open_.lower_bound(step); it != open_.end();) {
    const auto& [open_step, round] = *it;
    // Whoever came while it waited for its sum was told that it is closed.
    if (IsComplete(open_step, round)) {
      highest_closed_ = std::max(highest_closed_, open_step);
    }
    ClosedRound& taken =
        failed.open.emplace_back(TakeOut(open_step, it->second));
    for (const auto& [rank, member] : round.contributors) {
      repushes_.Add(open_step, rank, failure);
    }
    RecordsOf(policy_).RoundFailed(open_step, key_, failure,
                                   [&it] { return RanksOf(it->second); });
    const uint64_t bytes = std::min(
        taken.overhead.bytes(), round.contributors.size() * kContributorBytes);
    repushes_.AddOverhead(open_step, taken.overhead.Split(bytes));
    it = open_.erase(it);
  }
  failed.num_closed = FailClosed(step, failure);
  if (last_closed_ >= step) {
    last_closed_ = closed_.empty() ? step - 1 : closed_.back().step;
  }
  failed.late = FailLate(step, failure);
  return failed;
}

size_t Rounds::FailClosed(Step step, const RoundFailurePtr& failure) {
  size_t num_failed = 0;
  while (!closed_.empty() && closed_.back().step >= step) {
    const Closed& closed = closed_.back();
    for (const Contributor& each : closed.contributors->by_rank) {
      repushes_.Add(closed.step, each.rank, failure);
    }
    for (const LateContributor& each : LateOf(closed)) {
      repushes_.Add(closed.step, each.by.rank, failure);
      RecordsOf(policy_).LateContribution(closed.step, each.by.rank,
                                          LateFate::kTakenInVain);
    }
    RecordsOf(policy_).RoundUndone(closed.step, key_, closed.recorded);
    RecordsOf(policy_).RoundFailed(closed.step, key_, failure,
                                   [&closed] { return RanksOf(closed); });
    ++num_failed;
    closed_.pop_back();
  }
  return num_failed;
}

ClosedRounds Rounds::FailLate(Step step, const RoundFailurePtr& failure) {
  for (Closed& round : closed_) {
    if (!round.late) continue;
    const size_t num_erased =
        std::erase_if(round.late->all, [&](const LateContributor& each) {
          if (each.taken_by < step) return false;
          repushes_.Add(round.step, each.by.rank, failure);
          RecordsOf(policy_).LateContribution(round.step, each.by.rank,
                                              LateFate::kTakenInVain);
          return true;
        });
    Reservation& overhead = round.late->overhead;
    overhead.Split(std::min(overhead.bytes(), num_erased * kContributorBytes));
  }
  ClosedRounds dropped;
  const auto stays = [this](Step late) {
    return open_.upper_bound(late) != open_.end();
  };
  for (const auto& [rank, late] : late_.Drop(stays, dropped)) {
    repushes_.Add(late, rank, failure);
    RecordsOf(policy_).LateContribution(late, rank, LateFate::kDropped);
  }
  return dropped;
}

absl::Status Rounds::CheckNothingToRepush(absl::string_view key, uint32_t rank,
                                          Step end) const {
  return repushes_.CheckNothing(key, rank, end);
}

Step Rounds::last_awaited() const {
  Step last = last_open();
  if (!repushes_.is_empty()) last = std::max(last, repushes_.last());
  // What is late, or will be when it is pushed again, needs one more round.
  const bool is_late =
      !late_.empty() || (!repushes_.is_empty() && IsClosed(repushes_.first()));
  if (!is_late) return last;
  Step closed = last_closed_;
  for (const auto& [step, round] : open_) {
    if (IsComplete(step, round)) closed = step;
  }
  return std::max(last, closed + 1);
}

bool Rounds::MustRepush(uint32_t rank, Step step) const {
  return repushes_.Has(step, rank);
}

void Rounds::ClearRepush(uint32_t rank) {
  KeepSteps();
  repushes_.ClearAllOf(rank);
}

void Rounds::Abandon(absl::string_view why) {
  repushes_.ClearUpTo(UINT64_MAX);
  RoundFailurePtr failure;
  if (!open_.empty()) {
    failure = std::make_shared<RoundFailure>(RoundFailure{std::string(why)});
  }
  for (const auto& entry : open_) {
    RecordsOf(policy_).RoundFailed(entry.first, key_, failure,
                                   [&] { return RanksOf(entry.second); });
  }
  for (const auto& [rank, step] : late_.RanksAndSteps()) {
    RecordsOf(policy_).LateContribution(step, rank, LateFate::kDropped);
  }
  // Last: all of this is of the run that may end with the key.
  if (is_recorded_) RecordsOf(policy_).RemoveKey();
}

ClosedRound Rounds::Close(Step step, Round round) {
  ClosedRound closed = TakeOut(step, round);
  if (!std::exchange(is_recorded_, true)) RecordsOf(policy_).AddKey();
  RoundContributions& recorded = RecordsOf(policy_).StartRound();
  for (const auto& [rank, member] : round.contributors) {
    recorded.taken.push_back({.rank = rank,
                              .has_skipped = !member.weight,
                              .weight = member.weight.value_or(1)});
  }
  // Mostly nobody is.
  if (round.first_missing < policy_.workers->end_rank()) {
    AddMissing(step, round, recorded.missing);
  }
  late_.MoveTo(closed, absl::MakeSpan(closed_), recorded.taken);
  // Weights alone change nothing.
  if (std::all_of(closed.slots.begin(), closed.slots.end(),
                  [](const Slot& slot) { return slot.is_empty_list(); })) {
    closed.slots.clear();
  }
  closed.num_averaged = NumAveraged(policy_, closed.slots.size());
  closed.total_weight = WeightOf(policy_.aggregation, closed.slots);
  last_closed_ = step;
  highest_closed_ = std::max(highest_closed_, step);
  closed_.push_back(
      {.step = step,
       .contributors = ContributorsOf(policy_, round, closed.overhead),
       .all_skipped = closed.slots.empty(),
       .recorded = RecordsOf(policy_).RoundClosed(step, key_)});
  repushes_.ClearUpTo(step, [this](Step each) { return MayCarry(each); });
  return closed;
}

void Rounds::RecordApplied(Step step, Version version) {
  auto closed =
      std::find_if(closed_.begin(), closed_.end(),
                   [step](const Closed& each) { return each.step == step; });
  if (closed == closed_.end()) return;
  if (!closed->all_skipped) last_applied_ = step;
  do {
    closed->version = version;
  } while (++closed != closed_.end() && closed->all_skipped);
  while (closed_.size() > policy_.max_open + 1 &&
         closed_.front().version != 0) {
    closed_.erase(closed_.begin());
  }
}

void Rounds::RecordSkipped(Version version) {
  const auto first =
      std::find_if(closed_.begin(), closed_.end(),
                   [](const Closed& each) { return each.version == 0; });
  if (first != closed_.end() && first->all_skipped)
    RecordApplied(first->step, version);
}

void Rounds::KeepSteps() {
  history_.Keep(policy_.snapshots, [this] { return Steps(); });
}

std::vector<AppliedRound> Rounds::Remembered() const {
  std::vector<AppliedRound> closed;
  for (const Closed& each : closed_) {
    AppliedRound& round = closed.emplace_back();
    round = {each.step, each.version, each.contributors};
    const auto late = LateOf(each);
    round.late.assign(late.begin(), late.end());
  }
  return closed;
}

RoundSteps Rounds::Steps() const {
  Step first = open_.empty() ? UINT64_MAX : open_.begin()->first;
  if (!repushes_.is_empty()) first = std::min(first, repushes_.first());
  RoundSteps steps = {std::min(first, late_.first()), last_closed_,
                      last_applied_};
  for (const Closed& each : closed_) {
    if (each.version == 0 && !each.all_skipped) {
      steps.unapplied.push_back(each.step);
    }
  }
  if (steps.unapplied.empty()) return steps;
  for (const Closed& each : closed_) {
    for (const LateContributor& late : LateOf(each)) {
      if (late.taken_by < steps.unapplied.front()) continue;
      steps.first_late = std::min(steps.first_late, each.step);
    }
  }
  return steps;
}

void Rounds::Restore(std::vector<AppliedRound> rounds) {
  if (!std::exchange(is_recorded_, true)) RecordsOf(policy_).AddKey();
  for (AppliedRound& each : rounds) {
    last_closed_ = last_applied_ = highest_closed_ = each.step;
    closed_.push_back({.step = each.step,
                       .version = each.version,
                       .contributors = std::move(each.contributors)});
    if (each.late.empty()) continue;
    closed_.back().late = std::make_unique<LateContributors>();
    closed_.back().late->all = std::move(each.late);
  }
}

}  // namespace tensorkv
