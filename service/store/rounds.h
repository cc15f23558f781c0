// The open rounds of one key of a sync namespace.

#ifndef TENSORKV_SERVICE_STORE_ROUNDS_H_
#define TENSORKV_SERVICE_STORE_ROUNDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/byte_budget.h"
#include "service/store/contribution.h"
#include "tensor/requests.h"

namespace tensorkv {

// A round that every worker has contributed to.
struct ClosedRound {
  Step step = 0;
  // All workers', in rank order; empty if all skipped.
  Slots slots;
  Reservation held;
  Reservation overhead;
  Reservation room;
};

// Contributions of the first ranks of a round, to be summed ahead of its end.
struct Fold {
  Step step = 0;
  Slots slots;
};

// Collects contributions by step and rank. Not thread-safe.
//
// So that memory does not grow with the number of workers, the contributions
// of the ranks from 0 to the first that is missing can be folded: the caller
// sums them, in their order and in the accumulate type, and puts the sum in
// their place. The round's sum then has the same bits as without.
//
// Invariants:
//  1. A worker contributes to the open rounds in the order of their steps, so
//     rounds close in that order too.
//  2. Every open step is above every closed one.
class Rounds {
 public:
  // Fewer tensors than this are not folded.
  static constexpr size_t kMinFold = 8;

  // Ranks are 0 to `num_workers` - 1.
  Rounds(uint32_t num_workers, uint32_t max_open)
      : num_workers_(num_workers), max_open_(max_open) {}

  // Whether worker `rank` may contribute to `step` now; messages begin
  // `round 7 of "fc1.w": `. REQUIRES: rank < num_workers, step > 0.
  // Errors: AlreadyExists (it has) · FailedPrecondition (the round is closed;
  // a round that still waits for the worker would be passed over; another
  // worker has passed over this step) · ResourceExhausted (too many open
  // rounds).
  absl::Status Check(absl::string_view key, uint32_t rank, Step step) const;

  // Whether no round of that step is open yet: whoever opens it brings the
  // room for the new value.
  bool OpensRound(Step step) const { return open_.count(step) == 0; }

  // Adds a contribution; returns the round if that closes it. `room` is not
  // empty if OpensRound(step). REQUIRES: Check is OK.
  std::optional<ClosedRound> Add(uint32_t rank, Step step,
                                 Contribution contribution, Reservation room);

  // The contributions to fold now, if there are enough of them and no fold of
  // that round is under way. The round closes only after EndFold.
  std::optional<Fold> BeginFold(Step step);

  // Ends a fold with its sum, or without one if that could not be made; then
  // the contributions stay. Returns the round if it only waited for this.
  std::optional<ClosedRound> EndFold(Step step,
                                     std::optional<Contribution> sum);

  // Whether a round is open that worker `rank` has contributed to.
  bool HasOpenRoundOf(uint32_t rank) const;

  // What the first such round waits for: `round 7 of "fc1.w": waiting for
  // ranks 2, 5`.
  std::string DescribeOpenRoundOf(uint32_t rank, absl::string_view key) const;

  // Allows the step of a closed round again, whose update failed, unless a
  // later one has closed since.
  void Reopen(Step step);

  // The open steps and the ranks that have contributed to each.
  std::vector<std::pair<Step, std::vector<uint32_t>>> Contributors() const;

  size_t num_open() const { return open_.size(); }

 private:
  struct Round {
    // In rank order, of those that have contributed.
    std::map<uint32_t, Contribution> by_rank;
    // Ranks below have contributed; that many slots are held for them.
    uint32_t first_missing = 0;
    size_t num_leading_slots = 0;
    // Ranks below are being folded; 0 while no fold is under way.
    uint32_t fold_end = 0;
    Reservation room;
  };

  std::optional<ClosedRound> CloseIfComplete(Step step);
  static ClosedRound Close(Step step, Round round);

  const uint32_t num_workers_;
  const uint32_t max_open_;
  Step last_closed_ = 0;
  std::map<Step, Round> open_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ROUNDS_H_
