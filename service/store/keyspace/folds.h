// Sums contributions of open rounds ahead of their update.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_FOLDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_FOLDS_H_

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/update_work.h"

namespace tensorkv {

// Has the first contributions of a round of `key` summed, if there are enough.
void BeginFold(Transaction& transaction, StoredKey& key);

// Sums the contributions, without the mutex, and puts the sum in their place.
void RunFold(NamespaceState& state, FoldOfKey job);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_FOLDS_H_
