// Shares of the snapshots of a cluster, and how its home names these.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CLUSTER_SHARES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CLUSTER_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "contract/requests.h"
#include "contract/snapshot_references.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// These lock the mutex, for a bounded time each time. Errors of the first four:
// also FailedPrecondition: the server is in no cluster, or the namespace is
// mirrored.

// Gives a number for a snapshot that is to be named within `timeout`, or within
// a minute if that is longer. Errors: those of CheckCanTake.
absl::StatusOr<CreateSnapshotReply> ReserveNumber(NamespaceState& state,
                                                  SnapshotTerms terms,
                                                  absl::Duration timeout);

// Returns a reference to the share of the uid that the terms have, which
// nothing replaces from then on: to the one that is there, or to one that is
// taken now, unless one `has` to be there. Errors: those of CheckCanTake ·
// NotFound (SNAPSHOT_LOST).
absl::StatusOr<SnapshotReference> PrepareShare(NamespaceState& state,
                                               SnapshotTerms terms, bool has);

// Gives a share that is ready the number that was reserved for it. Errors:
// InvalidArgument · NotFound (SNAPSHOT_NOT_FOUND, SNAPSHOT_LOST) ·
// FailedPrecondition (SNAPSHOT_NUMBER_PASSED) · ResourceExhausted
// (OVER_BUDGET) · those of CheckGivesNumbers.
absl::StatusOr<CreateSnapshotReply> NameShare(
    NamespaceState& state, const CreateSnapshotRequest& request);

// Lets go of the shares of these uids, and of what is reserved for them, but
// not of what is named: only its number deletes that. Returns how many shares
// there were. Errors: why the namespace has gone.
absl::StatusOr<uint64_t> DropUids(NamespaceState& state,
                                  absl::Span<const uint64_t> uids);

// These are called with the mutex held.

// Returns the uids of the last snapshots of the series that have gone.
std::vector<uint64_t> GoneUids(const Series& series);

// Checks that the server has shares of such a namespace. Errors:
// FailedPrecondition.
absl::Status CheckTakesShares(const NamespaceState& state);

// Returns the NotFound (SNAPSHOT_LOST) of a share that has gone.
absl::Status ShareIsLost(const NamespaceState& state,
                         const SnapshotTerms& terms);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CLUSTER_SHARES_H_
