// Keys that come with more than a value.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

class Transaction;

// Makes the keys of an Init without waiting for another thread. `made` fills
// in each key, by the place of its entry, when the namespace gets it: its mutex
// is held, and nobody has seen the key. After an error of it the keys are
// there. Errors: those of Init, but for those of the fence if they
// `have_arrived` · those of `made`.
absl::Status CreateKeys(
    NamespaceState& state, InitRequest request, bool have_arrived,
    absl::FunctionRef<absl::Status(size_t entry, StoredKey& key)> made);

// Takes a key out of the namespace, with its rounds, and out of a snapshot that
// is being taken. REQUIRES: the mutex is held.
void RemoveKey(Transaction& transaction, const StoredKey& key);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
