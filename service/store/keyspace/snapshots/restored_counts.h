// Where versions and revisions go on that were saved.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESTORED_COUNTS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESTORED_COUNTS_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// More updates of one key, or changes of a namespace, than there are between a
// checkpoint and the end of its server.
inline constexpr uint64_t kRestoredGap = uint64_t{1} << 40;

// Returns where a count goes on that had come to `saved`. The clock has it
// differ from one restore of a checkpoint to the next: nothing is counted as
// fast as nanoseconds go by, so each restore begins above all that was counted
// before. The gap is for a clock that was set back since.
inline uint64_t RestoredFloor(uint64_t saved) {
  const uint64_t now = absl::ToUnixNanos(absl::Now());
  return now > saved ? now : saved + kRestoredGap;
}

// Raises the counts of the namespace: every version and revision from now on is
// above all that the namespace of `snapshot` may have given since it was saved.
inline void RestoreCounts(const NamespaceSnapshot& snapshot,
                          NamespaceState& state)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  state.restored_versions =
      std::max(state.restored_versions, RestoredFloor(snapshot.max_version));
  state.version_floor = std::max(state.version_floor, state.restored_versions);
  state.revisions.Raise(RestoredFloor(snapshot.revision));
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_RESTORED_COUNTS_H_
