// What is told of a named snapshot.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_STATUS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_STATUS_H_

#include "absl/time/time.h"
#include "contract/requests.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// Sets what CreateSnapshot, and what List and Describe, tell of it. REQUIRES:
// the mutex is held.
void SetReply(const NamedSnapshot& snapshot, CreateSnapshotReply* reply);
void SetStatus(const NamedSnapshot& snapshot, absl::Duration now,
               v1::SnapshotStatus* status);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_STATUS_H_
