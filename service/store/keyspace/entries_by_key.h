// The entries of a push by their keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ENTRIES_BY_KEY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ENTRIES_BY_KEY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/memory_budgets.h"

namespace tensorkv {

// Finds and checks the keys of a push. Good for as long as the mutex is held
// without a break.
class EntriesByKey {
 public:
  // The key of one entry, and where its other entries are.
  struct KeyOfEntry {
    StoredKey* key = nullptr;
    // The key's next entry in the call; 0 if there is none.
    uint32_t next = 0;
    bool is_first = false;
    // Whether its contribution is there already. Of a first entry only.
    bool is_repeat = false;
  };

  // REQUIRES: the mutex is held. Errors: those of Push that depend on keys.
  static absl::StatusOr<EntriesByKey> Create(const NamespaceState& state,
                                             const PushRequest& request);

  size_t size() const { return keys_.size(); }
  const KeyOfEntry& operator[](size_t position) const {
    return keys_[position];
  }
  // The answers to repeats, with the first entry of each key.
  const std::vector<std::pair<uint32_t, PushResult>>& repeats() const {
    return repeats_;
  }
  // Room for new values, where their keys are.
  const BytesByDevice& room_bytes() const { return room_bytes_; }
  // All present values, once for each entry.
  uint64_t value_bytes() const { return value_bytes_; }
  // What it takes to remember who has contributed.
  uint64_t note_bytes() const { return note_bytes_; }

  // Calls `visit` with the positions of a key's entries, from its first on.
  template <typename Visitor>
  void ForEach(uint32_t first, Visitor visit) const {
    uint32_t position = first;
    do {
      visit(position);
      position = keys_[position].next;
    } while (position != 0);
  }

 private:
  EntriesByKey() = default;

  absl::Status FindKeys(const NamespaceState& state,
                        absl::Span<const PushEntry> entries);
  // Sets StoredKey::position_in_call of the keys; the caller resets them.
  absl::Status Group(const PushMode& mode, const PushRequest& request);
  absl::Status AddFirst(const PushMode& mode, const PushRequest& request,
                        uint32_t position);

  std::vector<KeyOfEntry> keys_;
  std::vector<std::pair<uint32_t, PushResult>> repeats_;
  BytesByDevice room_bytes_;
  uint64_t value_bytes_ = 0;
  uint64_t note_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ENTRIES_BY_KEY_H_
