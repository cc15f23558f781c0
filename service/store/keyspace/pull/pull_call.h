// Pulls: one that counts updates, and the ends of those that wait for keys and
// rounds which have gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CALL_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Starts a pull as Namespace::PullOfPush does; `done` is called once, now or
// when the wait has ended. `update_counts`, which is null or outlives the call,
// gets those of the keys as they are with their values.
void StartPull(NamespaceState& state, PullRequest request, Step step,
               CallContext context, std::vector<uint64_t>* update_counts,
               ReplyCallback<PullReply> done);

// The next three look only at the waiting pulls that have `key` in the
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

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CALL_H_
