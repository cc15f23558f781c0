// Shares of the snapshots of a cluster, and how its home names these.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CLUSTER_SHARES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CLUSTER_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// All lock the mutex, for a bounded time each time.

// Gives a number for a snapshot that is to be named within `timeout`, or within
// a minute if that is longer. Errors: those of CheckCanTake.
absl::StatusOr<CreateSnapshotReply> ReserveNumber(NamespaceState& state,
                                                  SnapshotTerms terms,
                                                  absl::Duration timeout);

// Gives a share that is ready the number that was reserved for it. Errors:
// InvalidArgument · NotFound (SNAPSHOT_NOT_FOUND, SNAPSHOT_LOST) ·
// FailedPrecondition · those of CheckGivesNumbers.
absl::StatusOr<CreateSnapshotReply> NameShare(
    NamespaceState& state, const CreateSnapshotRequest& request);

// Lets go of the shares and snapshots of these uids, and of what is reserved
// for them. Returns how many there were. Errors: why the namespace has gone.
absl::StatusOr<uint64_t> DropUids(NamespaceState& state,
                                  absl::Span<const uint64_t> uids);

// Returns the uids of the last snapshots of the series that have gone.
// REQUIRES: the mutex is held.
std::vector<uint64_t> GoneUids(const Series& series);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CLUSTER_SHARES_H_
