// Decides what must be kept of a key for open snapshots, and keeps it.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_COPIES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_COPIES_H_

#include <cstdint>
#include <optional>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/kept_key.h"
#include "service/store/keyspace/snapshots/open_snapshots.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// All of this is called with the namespace's mutex held.

// Has the change with that revision begin on the key. What the key has been is
// kept before if an open snapshot lacks it: its value by reference, so that the
// change does not write it. Where states must be copied, the change does not
// begin: the copy is returned, which is to run now, and then the change may.
// REQUIRES: nothing runs on the key, and `revision` is above its own.
std::optional<PendingUpdate> KeepBefore(NamespaceState& state, StoredKey& key,
                                        uint64_t revision);

// Returns whether the change that the transaction makes may begin on the key
// now. If not, something runs on the key, be it a copy that this has begun.
// While no snapshot is open that the key is older than, it is one comparison.
inline bool TryBegin(Transaction& transaction, StoredKey& key,
                     uint64_t revision) {
  if (key.is_updating) return false;
  NamespaceState& state = transaction.state();
  if (key.revision > state.snapshots->newest()) {
    key.revision = revision;
    return true;
  }
  std::optional<PendingUpdate> copy = KeepBefore(state, key, revision);
  if (copy) transaction.work().updates.Add(&key, *std::move(copy));
  return !copy;
}

// Keeps what open snapshots lack of the key, before the transaction changes
// what it remembers of contributions, though its update may have to wait in the
// key's queue. REQUIRES: TryBegin was called.
void KeepBeforeContribution(Transaction& transaction, StoredKey& key);

// Keep what open snapshots lack of the key, of now and of after each update
// ahead, as it is about to leave its table, or to get another rule or other
// states. These changes do not wait in its queue; copies there keep the rule
// and the states of before. Of a key that leaves without updates ahead, the
// states themselves are kept.
void KeepBeforeRemoval(Transaction& transaction, StoredKey& key);
void KeepBeforeRuleChange(Transaction& transaction, StoredKey& key);

// Takes the key for one open snapshot, after the updates ahead that the
// snapshot has. Returns null if the snapshot has no such key, or has it from
// OpenSnapshots.
KeptKeyPtr TakeForSnapshot(Transaction& transaction, StoredKey& key,
                           const OpenSnapshot& snapshot);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_COPIES_H_
