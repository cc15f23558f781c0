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

// Checks that this server is the home of the namespace, and so knows what
// snapshots there are. Errors: those of KeyFence::View::CheckRead.
absl::Status CheckIsHome(const NamespaceState& state);

// Checks that this server gives the numbers of the namespace, which go on at
// another home from the moment on at which they are passed on to it. Errors:
// those of KeyFence::View::CheckChange.
absl::Status CheckGivesNumbers(const NamespaceState& state);

// Returns the snapshot, which is ready; null if the call is to wait for it.
// Errors: NotFound (SNAPSHOT_NOT_FOUND, SNAPSHOT_LOST) · without a uid those of
// CheckIsHome. REQUIRES: CheckReference is OK.
absl::StatusOr<NamedSnapshot*> FindSnapshot(const NamespaceState& state,
                                            const SnapshotReference& reference);

// Returns the error of a call that waits for the snapshot: DeadlineExceeded
// (WAIT_ENDED).
absl::Status MissingSnapshot(const NamespaceState& state,
                             const SnapshotReference& reference);

// Returns the NotFound of a series that is not there (SNAPSHOT_NOT_FOUND).
absl::Status NoSuchSeries(absl::string_view series);

// Returns why there is no snapshot of that number, or with a uid no snapshot or
// share of that: it was let go, or one does not know of any.
absl::Status NoSuchSnapshot(const Series& series, uint64_t number,
                            uint64_t uid = 0);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_REFERENCE_H_
