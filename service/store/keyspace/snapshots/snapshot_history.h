// Keeps what changes of a key before its updates run, for open snapshots.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_HISTORY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tensorkv {

// SnapshotRevisions bounds the revisions of the snapshots that are open; both
// are 0 while none is.
struct SnapshotRevisions {
  uint64_t oldest = 0;
  uint64_t newest = 0;
};

// Keeps the former states of a T, one for all snapshots between two changes.
// Not thread-safe.
template <typename T>
class SnapshotHistory {
 public:
  // Keeps what `present` returns, if an open snapshot lacks it. Is to be called
  // before the T changes. `open` may be null: there are no snapshots.
  template <typename Present>
  void Keep(const SnapshotRevisions* open, Present present) {
    const uint64_t newest = open == nullptr ? 0 : open->newest;
    if (newest > (former_.empty() ? 0 : former_.back().first)) {
      std::erase_if(former_, [open](const auto& each) {
        return each.first < open->oldest;
      });
      former_.emplace_back(newest, present());
    } else if (newest == 0 && !former_.empty()) {
      former_ = {};
    }
  }

  // Calls `visit` with each former state.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [revision, former] : former_) visit(former);
  }

  // Returns the T as it was at `revision`, of a snapshot that is open, if it is
  // `present` now.
  const T& At(uint64_t revision, const T& present) const {
    const auto it = std::find_if(
        former_.begin(), former_.end(),
        [revision](const auto& each) { return each.first >= revision; });
    return it == former_.end() ? present : it->second;
  }

 private:
  // In the order of the revisions: each is for snapshots up to its own, and
  // above the one before.
  std::vector<std::pair<uint64_t, T>> former_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_HISTORY_H_
