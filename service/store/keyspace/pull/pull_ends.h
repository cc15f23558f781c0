// Ends the pulls that wait for keys and rounds which have gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_ENDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_ENDS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// All of these look only at the waiting pulls that have `key` in the
// KeyWatches.

// Ends the waiting pulls that cannot be answered without that key, which is
// deleted.
void EndPullsOf(Transaction& transaction, const StoredKey& key);

// Ends with `status` the waiting pulls of workers who had contributed to rounds
// of `key` that are open, and go.
void EndPullsOfRounds(Transaction& transaction, const StoredKey& key,
                      absl::FunctionRef<absl::Status()> status);

// Ends the waiting pulls of workers who had contributed to rounds of `key` that
// lack workers which have left, with Aborted (WORKER_LEFT).
void EndPullsThatLackWorkers(Transaction& transaction, const StoredKey& key);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_ENDS_H_
