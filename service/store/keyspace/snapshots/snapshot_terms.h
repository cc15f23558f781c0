// Reads on which terms a call takes a snapshot, and which one it refers to.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_TERMS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_TERMS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/requests.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// Checks the name of a series, or of a lease, which `field` says. Errors:
// InvalidArgument.
absl::Status CheckSeriesName(absl::string_view field, absl::string_view name);

// Return the terms of a call. Errors: InvalidArgument.
absl::StatusOr<SnapshotTerms> TermsOf(const CreateSnapshotRequest& request);
absl::StatusOr<SnapshotTerms> TermsOf(const PublishAs& publish_as);

// Checks a reference, whatever there is. Errors: InvalidArgument.
absl::Status CheckReference(const SnapshotReference& reference);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_TERMS_H_
