// The entries of a push by their keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_ENTRIES_BY_KEY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_ENTRIES_BY_KEY_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {

// Returns whether the entry's elements do not matter, whatever they are.
inline bool BringsNothing(const PushEntry& entry) {
  return entry.skip || entry.weight == 0;
}

// The entries of one push, grouped by key. Valid only as long as the mutex,
// under which GroupByKey made it, stays locked.
struct EntriesByKey {
  // The key of one entry, and the place of that key's next entry.
  struct KeyOfEntry {
    StoredKey* key = nullptr;
    // The key's next entry in the call; 0 if there is none.
    uint32_t next = 0;
    bool is_first = false;
    // Set for the first entry of a key only: whether the worker's contribution
    // is there already, and whether it must bring a reservation for a new
    // value.
    bool is_repeat = false;
    bool brings_reservation = false;
  };

  // Calls `visit` with the positions of a key's entries, from its first on.
  template <typename Visitor>
  void ForEach(uint32_t first, Visitor visit) const {
    uint32_t position = first;
    do {
      visit(position);
      position = keys[position].next;
    } while (position != 0);
  }

  std::vector<KeyOfEntry> keys;
  // The answers to repeats, with the first entry of each key.
  std::vector<std::pair<uint32_t, PushResult>> repeats;
  // The bytes to reserve for new values.
  uint64_t new_value_bytes = 0;
  // The sum of DecodedBytes over all entries.
  uint64_t decoded_bytes = 0;
  // The sum of SumBytes over all keys.
  uint64_t sum_bytes = 0;
  // Counts what it takes to remember who has contributed.
  uint64_t record_bytes = 0;
  // Say whether some entry brings rows, some key has several entries, and any
  // of them makes a sum.
  bool has_rows = false;
  bool has_several = false;
  bool has_sums = false;
};

// Returns the bytes that the entry takes, besides what it is pushed as, once
// its round closes: servers of a mirrored namespace exchange unpacked tensors
// in the accumulate type. 0 elsewhere, and of an entry that is unpacked.
uint64_t DecodedBytes(const NamespaceState& state, const StoredKey& key,
                      const PushEntry& entry);

// Returns whether several entries of a push for a key must be summed before
// they count as one contribution. False where contributions are not summed in
// rounds. False for sums of rank 0, whose entries come first in them anyway.
bool MayNeedSums(const NamespaceState& state, const PushRequest& request);
// Returns the bytes of the sum of a key's entries, from its `first` on; nothing
// if they bring a single tensor, or each row once, or need no sum.
std::optional<uint64_t> SumBytes(const NamespaceState& state,
                                 const PushRequest& request,
                                 const EntriesByKey& entries, uint32_t first);

// Finds the keys of a push, and checks that each takes what the push brings for
// it. REQUIRES: the mutex is held. Errors: those of Push that depend on keys.
absl::StatusOr<EntriesByKey> GroupByKey(const NamespaceState& state,
                                        const PushRequest& request);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_ENTRIES_BY_KEY_H_
