// The rounds of one key of a sync namespace.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUNDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUNDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "contract/call_fields.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rounds/gathering_round.h"
#include "service/store/keyspace/rounds/late_contributions.h"
#include "service/store/keyspace/rounds/round_outcomes.h"
#include "service/store/keyspace/rounds/round_policy.h"
#include "service/store/keyspace/rounds/rounds_to_repush.h"
#include "service/store/keyspace/snapshots/snapshot_history.h"

namespace tensorkv {

// Collects contributions by step and rank. Not thread-safe.
//
// A round closes when every worker that its step needs has contributed, or,
// after the grace time, a quorum; then its update is applied. A round that
// fails on the way is open again and empty, and its contributors push that step
// again before they go on with the key. The rounds of later steps fail with it.
//
// Contributions are idempotent: who pushes again what is there already is told
// so. The key remembers the contributors of its last max_open + 1 closed
// rounds: a worker that pushes all keys of a step before the next is no further
// ahead of one to push again, with max_open rounds open and one more begun.
// Where late contributions are carried, the next round that closes takes those
// to the last max_open closed rounds. Until then they are the key's.
//
// So that memory does not grow with the number of workers, contributions can be
// summed ahead, in the accumulate type, but for means of integers: in the order
// of ranks those from 0 to the first missing one, so that the round's sum has
// the same bits; in the order of arrival all, which are added to one sum.
//
// Invariants:
//  1. A worker contributes to the open rounds in the order of their steps, and
//     rounds close, and are applied, in that order.
//  2. Every step that is open or to be pushed again is above every closed one;
//     where late contributions are carried, one to be pushed again may be one
//     of the last max_open that have closed.
//  3. Whoever must push a step again has contributed to no later open round.
class Rounds {
 public:
  // In rank order, fewer tensors than this make no partial sum.
  static constexpr size_t kMinPartialSum = 8;

  // `policy` and `key` outlive the rounds; `overhead` has BytesFor(*policy).
  explicit Rounds(const RoundPolicy* policy, Reservation overhead = {},
                  absl::string_view key = "");
  // Returns how many bytes the rounds of a key take besides contributions.
  static uint64_t BytesFor(const RoundPolicy& policy);

  // Returns nothing if `by` may contribute to `step` of the key now; if it has
  // done so, the round that has it. Messages begin `round 7 of "fc1.w": `.
  // REQUIRES: the worker is one, step > 0. Errors, with their reasons:
  // AlreadyExists (somebody else has contributed as that rank) · Aborted (the
  // worker must push an earlier step again) · FailedPrecondition (the round has
  // closed without the worker, or the worker came later; a round that still
  // waits for the worker would be passed over; another worker has passed over
  // this step) · ResourceExhausted (too many open rounds).
  absl::StatusOr<std::optional<RoundOfContribution>> Check(
      absl::string_view key, Version version, const Contributor& by,
      Step step) const;
  // Checks that the worker of `rank` need push no step below `end` again.
  // Errors: Aborted, naming the round.
  absl::Status CheckNothingToRepush(absl::string_view key, uint32_t rank,
                                    Step end = UINT64_MAX) const;

  // Returns whether no round of that step is open yet: whoever opens it brings
  // the reservation for the new value.
  bool OpensRound(Step step) const { return open_.count(step) == 0; }
  // Returns whether the step is over, be it that the round waits for its sum.
  bool IsClosed(Step step) const;
  // Returns whether the worker of `rank` must push that step again.
  bool MustRepush(uint32_t rank, Step step) const;
  // Returns the step whose round takes a contribution to `step` that is added
  // now; of a late one, while no round above is open, the first that may.
  Step HolderOf(Step step) const;
  // Identifies the open round of that step. REQUIRES: there is one.
  uint64_t IdOf(Step step) const { return open_.find(step)->second.id; }
  bool IsOpen(Step step, uint64_t id) const;
  // Returns the step and the IdOf of each open round, in order.
  std::vector<std::pair<Step, uint64_t>> OpenIds() const;
  // Returns whether a quorum may close the round of that step.
  bool HasGrace(Step step) const { return policy_.QuorumOf(step) > 0; }

  // Adds a contribution; returns the rounds that this closes.
  // `value_reservation` is not empty if OpensRound(step) and it is not late.
  // REQUIRES: Check says that it may be made.
  ClosedRounds Add(const Contributor& by, Step step, Contribution contribution,
                   Reservation value_reservation);

  // Ends the grace time of a round that is open; returns rounds that close.
  ClosedRounds EndGrace(Step step, uint64_t id);
  // Closes and returns, in order, the first rounds that need nobody any more.
  ClosedRounds CloseComplete();

  // Records that the update of a closed round, if it has one, has made
  // `version`. Rounds after it that all have skipped count as applied too.
  void RecordApplied(Step step, Version version);

  // Returns the first open round that waits for one of `ranks`, which rise.
  std::optional<Step> FirstWithout(absl::Span<const uint32_t> ranks) const;
  // Fails the rounds of `step` and later ones that are open, or closed and not
  // applied: their contributors must push those steps again.
  FailedRounds FailFrom(Step step, const RoundFailurePtr& failure);
  // Clears the steps that the worker of that rank must push again.
  void ClearRepush(uint32_t rank);
  // Ends all that is open or must be pushed again: the key is gone, for `why`.
  void Abandon(absl::string_view why);

  // Returns the least number of tensors of which a partial sum is made.
  size_t min_partial_sum() const;
  // Returns what one worker has brought to a round and must be summed first.
  // EndPartialSum ends each job that this and the next three return.
  std::optional<PartialSum> BeginSum();
  // Returns what BeginSum does, or leading contributions to sum ahead.
  std::optional<PartialSum> BeginPartialSum();
  // Returns the contributions of a complete round, whose sum is to be scaled
  // before the round closes.
  std::optional<PartialSum> BeginScaling();
  // Returns the contributions of the first open round, once complete, that are
  // summed with other servers; not before all closed rounds are applied.
  std::optional<PartialSum> BeginExchange();

  // Returns the step from which rounds fail if the job's sum cannot be made;
  // nothing if what was to be summed is there no more.
  std::optional<Step> FirstToFail(const PartialSum& partial) const;
  // Ends a job with its sum, or without one if that could not be made; then
  // the contributions stay. Leaves a sum whose round is there no more to the
  // caller. Returns the rounds that only waited for this.
  ClosedRounds EndPartialSum(const PartialSum& partial,
                             std::optional<Contribution>& sum);

  // Returns whether a round of a step up to `last` is open, or closed and not
  // applied, that the worker of `rank`, not a former one, has contributed to.
  bool Awaits(uint32_t rank, Step last) const;
  // Returns the lowest step of a contribution of that rank that the next round
  // is to take, or UINT64_MAX.
  Step FirstLateOf(uint32_t rank) const { return late_.FirstOf(rank); }
  // Checks that no such round waits for workers that have left since that of
  // `rank` joined, so that it cannot close. Errors: Aborted (WORKER_LEFT).
  absl::Status CheckNobodyLeft(absl::string_view key, uint32_t rank,
                               Step last) const;
  // Returns whether an open round may lack one of `ranks`, which have left.
  bool MayLack(absl::Span<const uint32_t> ranks) const;
  // Returns how many contributions the last remembered round up to `last` had
  // that the worker of `rank` has contributed to; 0 if there is none.
  uint32_t NumContributions(uint32_t rank, Step last) const;
  // Returns what the first such round waits for: `round 7 of "fc1.w": waiting
  // for ranks 2, 5 (rank 5 lost its lease 3.1s ago)`. REQUIRES: Awaits.
  absl::Status DescribeAwaited(uint32_t rank, absl::string_view key,
                               absl::Duration now) const;

  // Returns why the round of that step fails after `time`, or null if it has
  // all that it needs to close. REQUIRES: it is open.
  RoundFailurePtr DescribeTimeout(Step step, absl::Duration time,
                                  absl::Duration now) const;
  // Counts the rounds that come next, and that all have skipped, as applied,
  // with the key's version. Whoever waits for them is to be woken.
  void RecordSkipped(Version version);

  // Returns the remembered rounds in their order; version 0: not applied yet.
  std::vector<AppliedRound> Remembered() const;
  // Restores the rounds of a saved key. REQUIRES: it has had none yet.
  void Restore(std::vector<AppliedRound> rounds);

  // Returns the ranks that each open round waits for, by its step.
  std::vector<std::pair<Step, std::vector<uint32_t>>> Awaited() const;
  // Return what open snapshots have of the key's steps, now and formerly.
  RoundSteps Steps() const;
  const SnapshotHistory<RoundSteps>& step_history() const { return history_; }
  size_t num_open() const { return open_.size(); }
  // Return the highest step that is open, or 0, and the highest of these, of
  // those to be pushed again, and of what late contributions wait for.
  Step last_open() const { return open_.empty() ? 0 : open_.rbegin()->first; }
  Step last_awaited() const;
  // Returns whether there is none of these: no loss of a worker matters.
  bool is_idle() const { return last_awaited() == 0; }

 private:
  // Checks the order of steps for Check.
  friend class StepOrder;

  using Round = GatheringRound;
  using OpenRounds = std::map<Step, Round>;
  using Closed = RememberedRound;

  // Is called before any of Steps() changes.
  void KeepSteps();
  // Returns the contributor of that rank to an open or remembered round, and
  // sets `round` to the one that has the contribution.
  std::optional<Contributor> FindContributor(uint32_t rank, Step step,
                                             RoundOfContribution& round) const;
  const Closed* FindClosed(Step step) const;
  std::vector<uint32_t> Missing(Step step, const Round& round) const;
  void AddMissing(Step, const Round& round, std::vector<uint32_t>& to) const;
  // Returns whether the worker of that rank, the present one, has contributed.
  bool IsOf(uint32_t rank, const OpenRounds::value_type& round) const;
  // Goes over the ranks that the round need not wait for any longer; what is
  // complete stays so: its sum may be under way.
  void Advance(Step step, Round& round) const;
  bool IsComplete(Step step, const Round& round) const;
  bool HasQuorum(Step step, const Round& round) const;
  // Returns whether a quorum waits for none but those who have left.
  bool LacksOnlyThoseWhoLeft(Step step, const Round& round) const;
  // Returns who left since `rank` joined, and whom its round awaits in vain.
  std::vector<uint32_t> LeftOf(uint32_t rank, Step step,
                               const Round& round) const;
  // Returns whether the round is complete and has no other sum to wait for.
  bool MayClose(Step step, const Round& round) const;
  // Returns by how much the sum must be multiplied before the round may close.
  double ScaleOf(Step step, const Round& round) const;
  ClosedRound Close(Step step, Round round);
  // Returns whether the next round takes a late contribution to that step.
  bool MayCarry(Step step) const;
  size_t FailClosed(Step step, const RoundFailurePtr& failure);
  // Has late contributions be pushed again that rounds from `step` on, which
  // are there no more, had taken or were to take. Returns those it drops.
  ClosedRounds FailLate(Step step, const RoundFailurePtr& failure);
  const RoundPolicy& policy_;
  Reservation overhead_;
  const absl::string_view key_;
  bool is_recorded_ = false;
  Step last_closed_ = 0, last_applied_ = 0;
  // The highest step whose round has ever closed, or waited for its sum alone,
  // be it that it failed then: whoever was not in one of up to here was told
  // to go on, and may pass over it.
  Step highest_closed_ = 0;
  OpenRounds open_;
  // The last rounds that closed, in their order.
  std::vector<Closed> closed_;
  LateContributions late_;
  RoundsToRepush repushes_;
  SnapshotHistory<RoundSteps> history_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUNDS_H_
