// Lets named snapshots go: for want of memory, by time, by number.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_LETTING_GO_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_LETTING_GO_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/named_snapshots.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/memory_budgets.h"

namespace tensorkv {

// All are called with the namespace's mutex held. What takes long of it, the
// pool does later.

// Bounds the snapshots that go in one locking of the mutex, but for MakeRoom.
inline constexpr size_t kSnapshotsPerLock = 16;
// Bounds what these may have of keys that they name one by one, and of
// prefixes, though one number may have more, whose parts go together.
inline constexpr size_t kTextsPerLock = 4096;

// Returns whether one more of `num_before` may go in this locking of the mutex.
bool MayLetGo(Transaction& transaction, size_t num_before);

// Lets one snapshot go, as NamedSnapshots::Close does. Calls that wait for it
// hear why.
void CloseSnapshot(Transaction& transaction, NamedSnapshot& snapshot,
                   NamedSnapshots::Cause cause);

// Lets snapshots go, in their order, until no more is retained with `more` than
// may be, or letting go of more would not help: readers have what was let go,
// or other namespaces have too much. What they free is leaving until the
// transaction has ended.
void MakeRoom(Transaction& transaction, const BytesNeeded& more);

// Checks that no more is retained than may be, with `more`, without what is
// leaving, and without `freed` bytes of what snapshots take besides values.
// Errors: ResourceExhausted (OVER_BUDGET).
absl::Status CheckRoom(const NamespaceState& state, const BytesNeeded& more,
                       uint64_t freed = 0);

// Lets go of what a series does not keep.
void TrimSeries(Transaction& transaction, Series& series);

// Has an alarm end leases, and snapshots whose time is over.
void SetSnapshotAlarm(NamespaceState& state);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_LETTING_GO_H_
