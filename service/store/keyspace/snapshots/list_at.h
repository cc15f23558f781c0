// What List and Stat tell of the keys that a snapshot has.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_LIST_AT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_LIST_AT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/store/keyspace/key_status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// Returns what there is of a key of the snapshot. REQUIRES: the mutex is held.
// Errors: those of ValueAt.
absl::StatusOr<KeyMetadata> MetadataAt(const NamespaceState& state,
                                       const NamedSnapshot& snapshot,
                                       const std::string& key);

// Returns some keys of the snapshot that begin with `prefix`, in byte order,
// from the first after `*last` on; sets `*last` to how far it has looked, or
// clears it if these were all. REQUIRES: the mutex is held.
std::vector<KeyMetadata> ListAt(const NamespaceState& state,
                                const NamedSnapshot& snapshot,
                                absl::string_view prefix, std::string* last);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_LIST_AT_H_
