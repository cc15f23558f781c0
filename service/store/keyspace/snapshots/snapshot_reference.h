// Finds the snapshot that a call refers to.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_REFERENCE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_REFERENCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/snapshot_references.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// All are called with the namespace's mutex held.

// Returns the snapshot, which is ready; null if the call is to wait for it.
// Errors: NotFound (SNAPSHOT_NOT_FOUND, SNAPSHOT_LOST). REQUIRES:
// CheckReference is OK.
absl::StatusOr<NamedSnapshot*> FindSnapshot(const NamespaceState& state,
                                            const SnapshotReference& reference);

// Returns the error of a call that waits for the snapshot: DeadlineExceeded
// (WAIT_ENDED).
absl::Status MissingSnapshot(const NamespaceState& state,
                             const SnapshotReference& reference);

// Returns the NotFound of a series that is not there (SNAPSHOT_NOT_FOUND).
absl::Status NoSuchSeries(absl::string_view series);

// Returns why there is no snapshot of that number: it was let go, or one does
// not know of any.
absl::Status NoSuchSnapshot(const Series& series, uint64_t number);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_REFERENCE_H_
