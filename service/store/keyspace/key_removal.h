// Takes keys out of a namespace.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_REMOVAL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_REMOVAL_H_

#include <string>
#include <utility>
#include <vector>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

class Transaction;

// Says why a key is removed: it was deleted, another takes its place, or it is
// another server's. Watches hear of the first.
enum class Removal { kDelete, kReplace, kGone };

// Removes a key and its rounds from the namespace; open snapshots keep what
// they lack of it. REQUIRES: the mutex is held.
void RemoveKey(Transaction& transaction, StoredKey& key, Removal removal);

// Keys that have gone, with the last versions that they may have had.
using GoneKeys = std::vector<std::pair<std::string, Version>>;

// Tells the other servers of a mirrored namespace which keys have gone.
// REQUIRES: the mutex is not held.
void TellExchange(const NamespaceState& state, const GoneKeys& gone);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_REMOVAL_H_
