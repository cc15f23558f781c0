// Keys that come with more than a value.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

class Transaction;

// Makes the keys of an Init on this thread, and puts them into the namespace.
// `have_arrived` says that they come from elsewhere, of partitions that the
// fence keeps calls out of: then the fence is not asked. `made` fills in each
// key as the namespace gets it, before anybody can see it, with the mutex held;
// `entry` is its position in the request. What it has follow from the
// transaction is done when this returns. If `made` fails, the keys are there
// all the same. Errors: those of Init · those of `made`.
using MadeKey = absl::FunctionRef<absl::Status(Transaction& transaction,
                                               size_t entry, StoredKey& key)>;
absl::Status CreateKeys(NamespaceState& state, InitRequest request,
                        bool have_arrived, MadeKey made);

// Removes a key and its rounds from the namespace; open snapshots keep what
// they lack of it. REQUIRES: the mutex is held.
void RemoveKey(Transaction& transaction, StoredKey& key);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
