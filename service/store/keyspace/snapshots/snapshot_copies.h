// Decides what must be kept of a key for open snapshots, and keeps it.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_COPIES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_COPIES_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/kept_key.h"
#include "service/store/keyspace/snapshots/open_snapshots.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// All of this is called with the namespace's mutex held, and takes a time that
// depends neither on how many snapshots are open nor on what waits for the key,
// but for a change of its rule. No change is refused, or waits for memory, for
// a snapshot's sake: what snapshots alone need is counted as retained, and if
// that is too much, named ones go, and then the open ones fail. (Decision 17
// names what a GPU may yet lack memory for.)

// Keeps what the key is until the change that the transaction admits, for the
// open snapshots from `since` on that lack it: its value by reference, so that
// the change does not write it. Where something runs on the key, or its states
// must be copied, that is an access in its queue, or one that runs now. Keeps
// nothing, and has the snapshots fail, if there is no memory for another value
// of the key and the change has no reservation for that.
void KeepBefore(Transaction& transaction, StoredKey& key, uint64_t since,
                bool has_reservation);

// Returns whether snapshots may have the key's present value. Clears
// value_is_kept once nobody takes any.
inline bool MayHaveValue(const NamespaceState& state, StoredKey& key) {
  if (!key.value_is_kept) return false;
  key.value_is_kept = state.snapshots->has_readers();
  return key.value_is_kept;
}

// Admits a change of the key. Returns whether it may begin now; else it is to
// wait in the key's queue, behind all that is there. While no snapshot is open
// that the key is older than, it is one comparison. `has_reservation` says
// whether the change has some for another value of the key, or makes none.
inline bool TryBegin(Transaction& transaction, StoredKey& key,
                     bool has_reservation = true) {
  const uint64_t since = std::exchange(key.revision, transaction.revision());
  const NamespaceState& state = transaction.state();
  if (since <= std::max(state.snapshots->newest(), state.named->newest())) {
    KeepBefore(transaction, key, since, has_reservation);
  }
  MayHaveValue(state, key);
  return !key.is_updating;
}

// Keep what open snapshots lack of the key as it is about to leave its table,
// or to get another rule or other states. These changes do not wait in its
// queue: copies there keep the rule and the states of before. Of a key that
// leaves without updates ahead, the states themselves are kept.
void KeepBeforeRemoval(Transaction& transaction, StoredKey& key);
void KeepBeforeRuleChange(Transaction& transaction, StoredKey& key);

// Counts as retained what snapshots alone have of the key, now that `former`
// has been its value until its last update. `former` is null if the value is
// the same; that of a key that was removed, and for which nothing waits, goes
// too. REQUIRES: MayHaveValue, or the value was paid for as retained.
void RetainFormer(Transaction& transaction, StoredKey& key, Buffer* former);

// Takes the key for one open snapshot, after the updates ahead, all of which
// the snapshot has. Returns null if the snapshot has no such key, or has it
// from OpenSnapshots.
KeptKeyPtr TakeForSnapshot(Transaction& transaction, StoredKey& key,
                           const OpenSnapshot& snapshot);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_COPIES_H_
