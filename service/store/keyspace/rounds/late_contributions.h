// Contributions to closed rounds of a key, which the next round takes.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_LATE_CONTRIBUTIONS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_LATE_CONTRIBUTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rounds/gathering_round.h"
#include "service/store/keyspace/rounds/round_outcomes.h"
#include "service/store/keyspace/rounds/round_policy.h"

namespace tensorkv {

// Keeps contributions that have come after their rounds had closed, until the
// next round of the key closes (LATE_CARRY): in the order of ranks and then of
// steps, in which that round adds them. Not thread-safe.
class LateContributions {
 public:
  // `policy` outlives it.
  explicit LateContributions(const RoundPolicy* policy) : policy_(*policy) {}

  bool empty() const { return by_rank_.empty(); }
  // Returns the lowest step of one, or UINT64_MAX.
  Step first() const;
  // Returns the lowest step of one of that rank, or UINT64_MAX.
  Step FirstOf(uint32_t rank) const;
  // Returns who has made the one of that rank to `step`.
  std::optional<Contributor> Find(uint32_t rank, Step step) const;

  // REQUIRES: there is none of that rank to `step`.
  void Add(const Contributor& by, Step step, Contribution contribution);

  // Returns whether one to a step below `end` must be summed first.
  bool AwaitsSum(Step end) const;
  // Returns the next one that must be, unless its sum is under way.
  std::optional<PartialSum> BeginSum();
  // Returns whether what is to be summed is still here.
  bool Has(const PartialSum& partial) const;
  // Takes the sum, if it could be made and its contribution is still here.
  void EndSum(const PartialSum& partial, std::optional<Contribution>& sum);

  // Moves those to steps below that of `closed` into it, and records in the
  // rounds of `remembered` that they contributed to, that it has taken them.
  // Adds them to `taken`.
  void MoveTo(ClosedRound& closed, absl::Span<RememberedRound> remembered,
              std::vector<TakenContribution>& taken);
  // Returns the ranks and steps of all.
  std::vector<std::pair<uint32_t, Step>> RanksAndSteps() const;
  // Moves those to steps that do not stay into `dropped`, to be destroyed.
  // Returns their ranks and steps.
  std::vector<std::pair<uint32_t, Step>> Drop(
      absl::FunctionRef<bool(Step)> stays, ClosedRounds& dropped);

 private:
  struct Late {
    uint64_t id = 0;
    // Is that of its Contributor.
    uint64_t identity = 0;
    Contribution contribution;
    bool is_summing = false;
  };

  const RoundPolicy& policy_;
  // By rank and step.
  std::map<std::pair<uint32_t, Step>, Late> by_rank_;
  uint64_t last_id_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_LATE_CONTRIBUTIONS_H_
