// What named snapshots have of keys, and how they keep it.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_VALUES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_VALUES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/call_fields.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"
#include "tensor/tensor.h"

namespace tensorkv {

// All are called with the namespace's mutex held.

// Keeps the value that the key has from `since` on until its last change, if
// a snapshot has it: by reference, so that the change does not write it; once
// what runs on the key has ended, if something does. Where there is no room for
// `more_bytes` of the device, which the change takes at once for their sake,
// snapshots go.
void KeepForNamed(Transaction& transaction, StoredKey& key, uint64_t since,
                  uint64_t more_bytes = 0);

// Returns whether the snapshot has keys of that name: keys that were on their
// way here when it was taken, another server's has.
bool HasKey(const NamespaceState& state, const NamedSnapshot& snapshot,
            absl::string_view key);

// A value of a snapshot, in the memory of the device.
struct ValueOfSnapshot {
  Version version = 0;
  Tensor tensor;
  // That of the snapshot's part that has it.
  uint64_t revision = 0;
};
// Returns the value that the snapshot has of the key, be the key another
// server's by now. REQUIRES: the snapshot is ready. Errors, where it has no
// such key: those of CheckRead · NotFound.
absl::StatusOr<ValueOfSnapshot> ValueAt(const NamespaceState& state,
                                        const NamedSnapshot& snapshot,
                                        absl::string_view key);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_NAMED_VALUES_H_
