// Says what a pass knows of one update.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_ITEM_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_ITEM_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "base/ref_counted.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

// Says what an update of no elements costs, as bytes that are read and written.
inline constexpr uint64_t kUpdateBytes = 64;

// A key's update, or access, from its addition to a pass until its end: what
// every update has, in as few bytes as possible.
struct UpdateItem {
  static constexpr uint32_t kNone = UINT32_MAX;

  StoredKey* key = nullptr;          // which stays while it is_updating
  const UpdateRule* rule = nullptr;  // which the pass keeps
  uint64_t update_count = 0;
  Step round = 0;
  // Its places in the pass's arrays. It has as many slots as tensors, or none:
  // then its only contribution is its tensor and nothing else.
  uint32_t first_tensor = 0;
  uint32_t num_tensors = 0;
  uint32_t first_slot = kNone;
  // The only result of its call that it makes; of several, the place of the
  // first in the pass's array.
  uint32_t result = 0;
  uint32_t num_results = 0;
  uint32_t extras = kNone;
};

// Passes have 10,000 of them, and whoever goes through these waits for memory.
static_assert(sizeof(UpdateItem) <= 64);

// Says where the next `num_items` items of a pass come from.
struct UpdateOrigin {
  RefPtr<QueuedCall> call;  // null in sync mode
  uint64_t revision = 0;    // as PendingUpdate::revision
  size_t num_items = 0;
};

// Holds what an item has that most lack.
struct UpdateExtras {
  uint32_t item = 0;  // the index of the item that has it
  // Say what PendingUpdate says.
  uint32_t num_averaged = 0;
  std::optional<double> total_weight;
  // Not null: nothing is updated.
  RefPtr<KeyAccess> access;
  RefPtr<RuleState> rule_state;
  SharedMultipliers multipliers;
  // Where the new value goes, unless it is written in place; null until the
  // pass has allocated or adopted it. In the end, the old value.
  RefPtr<Buffer> target;
  bool is_in_place = true;
  // True if the target is counted as retained, as snapshots have the value.
  bool is_retained = false;
  // True if the only slot's buffer becomes the value as it is.
  bool adopts = false;
  // True if some of the slots bring rows.
  bool is_of_rows = false;
  bool must_fill_states = false;
  bool must_fill_master = false;
  absl::Status status;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_ITEM_H_
