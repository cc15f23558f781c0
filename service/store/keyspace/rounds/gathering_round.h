// One round of a key while it is open, and what is left of it then.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_GATHERING_ROUND_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_GATHERING_ROUND_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rounds/step_records.h"

namespace tensorkv {

// An open round of a key: who has contributed so far, and what.
struct GatheringRound {
  struct Member {
    // That of the Contributor.
    uint64_t identity = 0;
    // Nothing if it has skipped.
    std::optional<double> weight;
  };

  uint64_t id = 0;
  // All who have contributed or skipped, by rank.
  absl::btree_map<uint32_t, Member> contributors;
  // The contributions by their places, in the order in which they are added; a
  // partial sum is in the first place of those that are in it. The place of one
  // is its rank, or how many have come before it.
  std::map<uint32_t, Contribution> by_place;
  uint32_t num_arrived = 0;
  // Every rank below has contributed, or is not needed.
  uint32_t first_missing = 0;
  // Counts the slots of the contributions before which none can come any more.
  size_t num_leading_slots = 0;
  // While a sum of contributions is under way: the places below are in it;
  // UINT32_MAX if one place alone, or all are. 0 while none is.
  uint32_t partial_end = 0;
  // Counts the contributions that need a sum of their own first.
  size_t num_to_sum = 0;
  // The contributions suffice once they are a quorum: its grace is over, or
  // those who are missing have left.
  bool is_grace_over = false;
  // The sum is to be scaled if it lacks workers: RoundPolicy::rescales as it
  // was when the round began.
  bool rescales = false;
  // The contributions are one sum, scaled.
  bool is_scaled = false;
  // They are the sum of all servers'.
  bool is_exchanged = false;
  Reservation value_reservation;
  // Counts the contributors whose contributions are in partial sums.
  Reservation overhead;
};

// Lists, in the order of ranks, who has contributed to a round after it had
// closed, once another round has taken that.
struct LateContributors {
  void Add(const LateContributor& late) {
    all.insert(std::lower_bound(all.begin(), all.end(), late.by.rank, Less),
               late);
  }
  // Returns null if that rank has not contributed so.
  const LateContributor* Find(uint32_t rank) const {
    const auto late = std::lower_bound(all.begin(), all.end(), rank, Less);
    return late != all.end() && late->by.rank == rank ? &*late : nullptr;
  }
  static bool Less(const LateContributor& late, uint32_t rank) {
    return late.by.rank < rank;
  }

  std::vector<LateContributor> all;
  Reservation overhead;
};

// A round that has closed.
struct RememberedRound {
  Step step = 0;
  // 0 until the update has been applied.
  Version version = 0;
  RefPtr<const Contributors> contributors;
  bool all_skipped = false;
  StepRecords::ListNumber recorded = StepRecords::kUnrecorded;
  // Null: nobody has contributed since that a round has taken.
  std::unique_ptr<LateContributors> late = nullptr;
};

// Says which round has a contribution, and which version that round has made:
// 0 as long as it has made none.
struct RoundOfContribution {
  Step step = 0;
  Version version = 0;
};

// Says how far the steps of a key are: the first one that is open, must be
// pushed again or has a late contribution that no round has taken, or
// UINT64_MAX, the last one that has closed, the last one of which an update was
// applied, and, in their order, those that have closed and whose updates are
// yet to be; of these, the first step of a late contribution that one of them
// has taken, or UINT64_MAX.
struct RoundSteps {
  Step first_unclosed = UINT64_MAX;
  Step last_closed = 0;
  Step last_applied = 0;
  std::vector<Step> unapplied = {};
  Step first_late = UINT64_MAX;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_GATHERING_ROUND_H_
