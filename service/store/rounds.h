// The open rounds of one key of a sync namespace.

#ifndef TENSORKV_SERVICE_STORE_ROUNDS_H_
#define TENSORKV_SERVICE_STORE_ROUNDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/store/byte_budget.h"
#include "service/store/contribution.h"
#include "service/store/worker_group.h"
#include "tensor/requests.h"

namespace tensorkv {

// What all keys of a namespace have in common. The workers outlive the rounds.
struct RoundPolicy {
  const WorkerGroup* workers = nullptr;
  uint32_t max_open = 0;
  // So many contributions suffice once the grace time is over; 0: never.
  uint32_t quorum = 0;
  // Whether the sum of a round that lacks workers is multiplied by N/n.
  bool rescales = false;
};

using Ranks = std::vector<uint32_t>;

// A round that no longer waits for anybody, or that was dropped.
struct ClosedRound {
  Step step = 0;
  // The contributors', in rank order; empty if all skipped.
  Slots slots;
  Reservation held;
  Reservation overhead;
  Reservation room;
  // The contributors.
  Ranks ranks;
};

using ClosedRounds = absl::InlinedVector<ClosedRound, 1>;

// Contributions of the first ranks of a round, to be summed ahead of its end.
struct Fold {
  Step step = 0;
  // Of the round: another round of the same step has another.
  uint64_t id = 0;
  Slots slots;
  // What to multiply the sum with.
  double scale = 1;
};

// Collects contributions by step and rank. Not thread-safe.
//
// A round closes when every worker that its step needs has contributed, or,
// after the grace time, a quorum.
//
// So that memory does not grow with the number of workers, the contributions
// of the ranks from 0 to the first that is missing can be folded: the caller
// sums them, in their order and in the accumulate type, and puts the sum in
// their place. The round's sum then has the same bits as without.
//
// Invariants:
//  1. A worker contributes to the open rounds in the order of their steps, and
//     rounds close in that order.
//  2. Every open step is above every closed one.
class Rounds {
 public:
  // Fewer tensors than this are not folded.
  static constexpr size_t kMinFold = 8;

  // `policy` outlives the rounds.
  explicit Rounds(const RoundPolicy* policy) : policy_(*policy) {}

  // Whether worker `rank` may contribute to `step` now; messages begin
  // `round 7 of "fc1.w": `. REQUIRES: the worker is one, step > 0.
  // Errors: AlreadyExists (it has) · FailedPrecondition (the round is closed;
  // a round that still waits for the worker would be passed over; another
  // worker has passed over this step; the worker came later) ·
  // ResourceExhausted (too many open rounds).
  absl::Status Check(absl::string_view key, uint32_t rank, Step step) const;

  // Whether the round of that step is over.
  bool IsClosed(Step step) const;
  // Whether worker `rank` has contributed to the open round of that step.
  bool HasContributed(uint32_t rank, Step step) const;

  // Whether no round of that step is open yet: whoever opens it brings the
  // room for the new value.
  bool OpensRound(Step step) const { return open_.count(step) == 0; }
  // Identifies the open round of that step. REQUIRES: there is one.
  uint64_t IdOf(Step step) const { return open_.find(step)->second.id; }

  // Adds a contribution; returns the rounds that this closes. `room` is not
  // empty if OpensRound(step). REQUIRES: Check is OK.
  ClosedRounds Add(uint32_t rank, Step step, Contribution contribution,
                   Reservation room);

  // The grace time of a round is over, if the round is still open.
  ClosedRounds EndGrace(Step step, uint64_t id);

  // The rounds that need nobody any more since the group has changed.
  ClosedRounds TakeComplete();

  // Drops the rounds that wait for the worker of that rank.
  ClosedRounds FailWithout(uint32_t rank);
  // Drops a round, if it is still open, and those of later steps, which would
  // be in the way of its being pushed again.
  ClosedRounds Fail(Step step, uint64_t id);
  // Drops the rounds of later steps.
  ClosedRounds FailAfter(Step step);

  // The contributions to fold now, of a round that has enough of them.
  std::optional<Fold> BeginFold();
  // The contributions of a complete round, whose sum is to be scaled before the
  // round closes.
  std::optional<Fold> BeginScaling();

  // Ends a fold with its sum, or without one if that could not be made; then
  // the contributions stay. Returns the rounds that only waited for this.
  ClosedRounds EndFold(const Fold& fold, std::optional<Contribution> sum);

  // Whether a round is open that worker `rank` has contributed to; rounds that
  // only a former worker of that rank took part in do not count.
  bool HasOpenRoundOf(uint32_t rank) const;

  // What the first such round waits for: `round 7 of "fc1.w": waiting for
  // ranks 2, 5 (rank 5 lost its lease 3.1s ago)`.
  std::string DescribeOpenRoundOf(uint32_t rank, absl::string_view key,
                                  absl::Duration now) const;

  // Allows the step of a closed round again, whose update failed, unless a
  // later one has closed since.
  void Reopen(Step step);

  // Drops all open rounds.
  ClosedRounds FailAll();

  size_t num_open() const { return open_.size(); }

 private:
  struct Round {
    uint64_t id = 0;
    // In rank order, of those that have contributed.
    std::map<uint32_t, Contribution> by_rank;
    // Ranks below have contributed or are not needed; those that have hold so
    // many slots.
    uint32_t first_missing = 0;
    size_t num_leading_slots = 0;
    // Ranks below are being folded; 0 while no fold is under way.
    uint32_t fold_end = 0;
    bool is_grace_over = false;
    // The contributions are one sum, scaled.
    bool is_scaled = false;
    Reservation room;
  };
  using OpenRounds = std::map<Step, Round>;

  // Whether the steps of the worker, and of the key's rounds, rise without one
  // being passed over. Errors: as of Check.
  absl::Status CheckOrder(absl::string_view key, uint32_t rank,
                          Step step) const;
  std::vector<uint32_t> Missing(Step step, const Round& round) const;
  // Whether the worker of that rank, the present one, has contributed.
  bool IsOf(uint32_t rank, const OpenRounds::value_type& round) const;
  // Goes over the ranks that the round need not wait for any longer.
  void Advance(Step step, Round& round) const;
  bool IsComplete(const Round& round) const;
  // By how much the sum must be multiplied before the round may close.
  double ScaleOf(Step step, const Round& round) const;
  Fold StartFold(Step step, Round& round, uint32_t end) const;
  ClosedRounds Drop(OpenRounds::iterator first, OpenRounds::iterator last);
  static ClosedRound Close(Step step, Round round);

  const RoundPolicy& policy_;
  Step last_closed_ = 0;
  OpenRounds open_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ROUNDS_H_
