// One round of a key while it is open, or must be made again.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_GATHERING_ROUND_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_GATHERING_ROUND_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/btree_map.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/contribution.h"
#include "service/store/keyspace/steps_to_repush.h"

namespace tensorkv {

// GatheringRound is what a round has so far.
struct GatheringRound {
  uint64_t id = 0;
  // All, by rank, with their identities.
  absl::btree_map<uint32_t, uint64_t> contributors;
  // The contributions, in rank order, but for those in a partial sum, which
  // is in the first place.
  std::map<uint32_t, Contribution> by_rank;
  // Ranks below have contributed or are not needed; those that have hold so
  // many slots.
  uint32_t first_missing = 0;
  size_t num_leading_slots = 0;
  // Ranks below are being summed, or UINT32_MAX where one is; 0 while no sum
  // is under way.
  uint32_t partial_end = 0;
  // Counts the contributions that need a sum of their own first.
  size_t num_to_sum = 0;
  // The contributions suffice once they are a quorum: its grace is over, or
  // those who are missing have left.
  bool is_grace_over = false;
  // It had closed before, and whoever was not in it may pass over it.
  bool had_closed = false;
  // The contributions are one sum, scaled.
  bool is_scaled = false;
  // They are the sum of all servers'.
  bool is_exchanged = false;
  Reservation value_reservation;
  // Counts the contributors whose contributions are in partial sums.
  Reservation overhead;
};

// A round that has closed.
struct RememberedRound {
  Step step = 0;
  // 0 until the update has been applied.
  Version version = 0;
  RefPtr<const Contributors> contributors;
  bool all_skipped = false;
};

// A step whose round has failed, until all who had contributed have done so
// again.
struct RoundToRepush {
  RoundFailurePtr failure;
  // The ranks that must push the step again; they rise.
  std::vector<uint32_t> ranks;
  // Says what Round says.
  bool had_closed = false;
  Reservation overhead;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_GATHERING_ROUND_H_
