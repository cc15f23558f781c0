// The steps of one key that workers must push again.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUNDS_TO_REPUSH_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUNDS_TO_REPUSH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/round_policy.h"

namespace tensorkv {

// Knows by step who must push it again: who had contributed to a round that has
// failed. Counts in RoundPolicy::shared what it has. Not thread-safe.
class RoundsToRepush {
 public:
  // `policy` outlives it.
  explicit RoundsToRepush(const RoundPolicy* policy) : policy_(*policy) {}

  bool is_empty() const { return by_step_.empty(); }
  // REQUIRES for these: it is not empty.
  Step first() const { return by_step_.begin()->first; }
  Step last() const { return by_step_.rbegin()->first; }

  bool Has(Step step) const { return by_step_.contains(step); }
  bool Has(Step step, uint32_t rank) const;
  // Returns the steps, in their order.
  std::vector<Step> Steps() const;

  // Checks that the worker of `rank` need push no step below `end` again.
  // Errors: Aborted (ROUND_FAILED).
  absl::Status CheckNothing(absl::string_view key, uint32_t rank,
                            Step end) const;

  // Adds a step of the worker of `rank`, unless nobody needs that worker, who
  // may have joined later.
  void Add(Step step, uint32_t rank, const RoundFailurePtr& failure);
  // Keeps what counts the memory of the step, if it is there.
  void AddOverhead(Step step, Reservation overhead);

  // Clear the step of one worker, all steps of a worker, and the steps up to
  // `last` but for those that `stays` names.
  void Clear(Step step, uint32_t rank);
  void ClearAllOf(uint32_t rank);
  void ClearUpTo(
      Step last,
      absl::FunctionRef<bool(Step)> stays = [](Step) { return false; });

 private:
  struct Repush {
    RoundFailurePtr failure;
    // The ranks that must push the step again, in ascending order.
    std::vector<uint32_t> ranks;
    Reservation overhead;
  };
  using ByStep = absl::btree_map<Step, Repush>;

  // Returns the place after.
  ByStep::iterator Clear(ByStep::iterator repush, uint32_t rank);

  const RoundPolicy& policy_;
  ByStep by_step_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUNDS_TO_REPUSH_H_
