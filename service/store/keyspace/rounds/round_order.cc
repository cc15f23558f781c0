// What a contribution must be to join a round of a key: neither late, nor ahead
// of what its rank owes or may open.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status StepClosed(absl::string_view key, Version version, Step step,
                        absl::string_view expected) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        RoundName(step, key), ": expected ", expected)),
                    Reason::kStepClosed,
                    {{"key", key}, {"step", step}, {"version", version}});
}

absl::Status StepGap(absl::string_view key, Step step,
                     absl::string_view problem) {
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat(RoundName(step, key), ": ", problem)),
                    Reason::kStepGap, {{"key", key}, {"step", step}});
}

// Returns whether a quorum has closed that step at some key: whoever is late is
// told there to go on, and pushes the step at no other key either.
bool MayBePassedOver(const RoundPolicy& policy, Step step) {
  return policy.QuorumOf(step) > 0 && step <= policy.workers->max_closed();
}

}  // namespace

// StepOrder says whether a contribution follows those that are there: neither
// a worker's steps nor those of the key's rounds may pass over one.
class StepOrder {
 public:
  explicit StepOrder(const Rounds& rounds)
      : rounds_(rounds),
        policy_(rounds.policy_),
        open_(rounds.open_),
        repushes_(rounds.repushes_) {}

  // Checks that the steps of the worker, and of the key's rounds, rise without
  // one being passed over. Errors: as of Rounds::Check.
  absl::Status Check(absl::string_view key, Version version, uint32_t rank,
                     Step step) const;

 private:
  // Returns whether the round of that step, open or not, waits for `rank`.
  bool IsPassedOver(Step step, uint32_t rank) const;
  // Return whether a worker of that step, that of `rank`, is in a later round.
  bool IsSkipped(Step step) const;
  bool HasGoneOn(uint32_t rank, Step step) const;
  // Returns whether the round of that step can still have a quorum: of those
  // who have contributed, and, but for `without`, those who have not gone on.
  bool CanHaveQuorum(Step step,
                     std::optional<uint32_t> without = std::nullopt) const;
  // Returns the first step below `end` whose round waits for `rank`, or `end`.
  Step FirstPassedOver(uint32_t rank, Step end) const;
  // Returns whether a round of `step` may be opened beside others and steps
  // that must be pushed again. The first always may: none closes before it.
  bool MayOpen(Step step) const;

  const Rounds& rounds_;
  const RoundPolicy& policy_;
  const Rounds::OpenRounds& open_;
  const RoundsToRepush& repushes_;
};

absl::StatusOr<std::optional<RoundOfContribution>> Rounds::Check(
    absl::string_view key, Version version, const Contributor& by,
    Step step) const {
  if (!policy_.workers->TakesPart(by.rank, step)) {
    return StepClosed(
        key, version, step,
        absl::StrCat("a step above ", policy_.workers->step_of(by.rank),
                     ", as worker ", by.rank, " has joined after this one"));
  }
  RoundOfContribution round;
  if (const auto contributor = FindContributor(by.rank, step, round)) {
    if (contributor->IsSame(by)) return round;
    return WithReason(absl::AlreadyExistsError(
                          absl::StrCat(RoundName(step, key),
                                       ": somebody else has contributed as "
                                       "worker ",
                                       by.rank, " already")),
                      Reason::kContributionExists,
                      {{"key", key}, {"step", step}, {"rank", by.rank}});
  }
  if (MayCarry(step)) {
    RETURN_IF_ERROR(CheckNothingToRepush(key, by.rank, step));
    return std::nullopt;
  }
  if (step <= last_closed_) {
    return StepClosed(
        key, version, step,
        absl::StrCat("a step above ", last_closed_, ", which is closed"));
  }
  if (IsClosed(step)) {
    return StepClosed(
        key, version, step,
        absl::StrCat("a later step, as the round has closed without worker ",
                     by.rank));
  }
  RETURN_IF_ERROR(CheckNothingToRepush(key, by.rank, step));
  RETURN_IF_ERROR(StepOrder(*this).Check(key, version, by.rank, step));
  return std::nullopt;
}

bool StepOrder::IsSkipped(Step step) const {
  for (auto round = open_.upper_bound(step); round != open_.end(); ++round) {
    for (const auto& [rank, member] : round->second.contributors) {
      if (policy_.workers->TakesPart(rank, step)) return true;
    }
  }
  return false;
}

// A quorum may have gone on without the worker before the round failed.
bool StepOrder::IsPassedOver(Step step, uint32_t rank) const {
  if (!policy_.workers->TakesPart(rank, step)) return false;
  const auto round = open_.find(step);
  const bool had_closed =
      step <= rounds_.highest_closed_ ||
      (MayBePassedOver(policy_, step) &&
       (round == open_.end() || CanHaveQuorum(step, /*without=*/rank)));
  if (had_closed && !repushes_.Has(step, rank)) return false;
  return round == open_.end() || (!round->second.contributors.contains(rank) &&
                                  !rounds_.IsComplete(step, round->second));
}

bool StepOrder::HasGoneOn(uint32_t rank, Step step) const {
  return std::any_of(open_.upper_bound(step), open_.end(),
                     [rank](const auto& later) {
                       return later.second.contributors.contains(rank);
                     });
}

bool StepOrder::CanHaveQuorum(Step step,
                              std::optional<uint32_t> without) const {
  const auto round = open_.find(step);
  size_t num_possible = 0;
  for (uint32_t rank = 0; rank < policy_.workers->end_rank(); ++rank) {
    const bool has_contributed =
        round != open_.end() && round->second.contributors.contains(rank);
    num_possible +=
        has_contributed ||
        (rank != without && policy_.workers->TakesPart(rank, step) &&
         !HasGoneOn(rank, step));
  }
  return num_possible >= policy_.QuorumOf(step);
}

Step StepOrder::FirstPassedOver(uint32_t rank, Step end) const {
  for (const auto& [step, round] : open_) {
    if (step >= end) break;
    if (IsPassedOver(step, rank)) end = step;
  }
  for (const Step step : repushes_.Steps()) {
    if (step >= end) break;
    if (IsPassedOver(step, rank)) end = step;
  }
  return end;
}

bool StepOrder::MayOpen(Step step) const {
  size_t num_before = 0;
  for (const auto& [open_step, round] : open_) num_before += open_step < step;
  if (num_before > 0 && open_.size() >= policy_.max_open) return false;
  for (const Step repush : repushes_.Steps()) {
    num_before +=
        repush < step && !rounds_.IsClosed(repush) && !open_.contains(repush);
  }
  return num_before < policy_.max_open;
}

absl::Status StepOrder::Check(absl::string_view key, Version version,
                              uint32_t rank, Step step) const {
  const Step passed_over = FirstPassedOver(rank, step);
  if (passed_over < step) {
    return StepGap(
        key, step,
        absl::StrCat("expected worker ", rank, " to contribute to step ",
                     passed_over, " first"));
  }
  if (open_.contains(step)) return absl::OkStatus();
  // Workers that came later pass over a step that others must push again.
  if (!repushes_.Has(step) && IsSkipped(step)) {
    if (!MayBePassedOver(policy_, step)) {
      return StepGap(key, step,
                     absl::StrCat("other workers have passed to step ",
                                  rounds_.last_open()));
    }
    // A round that nobody can complete would keep all later ones from closing.
    // A worker that goes down the steps would open any number of rounds.
    if (!CanHaveQuorum(step) || HasGoneOn(rank, step)) {
      return StepClosed(key, version, step,
                        "a later step, as a quorum has closed this one at "
                        "another key and gone on");
    }
  }
  if (!MayOpen(step)) {
    return WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat(RoundName(step, key), ": expected at most ",
                         policy_.max_open, " open rounds, got one more")),
        Reason::kTooManyOpenRounds,
        {{"key", key}, {"step", step}, {"limit", policy_.max_open}});
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
