// Does what follows when rounds of a key close, fail, or go with their key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_ENDINGS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_ENDINGS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "service/store/keyspace/push/push_mode.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Has the updates of closed rounds of `key` run, after its other updates, and
// begins what its next rounds need: scaling, or a sum with other servers. Also
// to be called with none, after any change of the key's rounds.
void CloseRounds(Transaction& transaction, StoredKey& key,
                 PendingUpdates updates);
void CloseRounds(Transaction& transaction, StoredKey& key, ClosedRounds closed);

// Fails the rounds of `key` from `step` on, which their contributors must then
// push again. The caller wakes who waits for them.
void FailRounds(Transaction& transaction, StoredKey& key, Step step,
                const RoundFailurePtr& failure);

// Drops the rounds of a key that is being removed, for `why`. Open ones count
// as failed; nobody must push their steps again.
void RemoveRounds(Transaction& transaction, StoredKey& key,
                  absl::string_view why);

// Adds to the work of the transaction a sum of the first contributions of a
// round of `key`, if there are enough.
void BeginPartialSum(Transaction& transaction, StoredKey& key);

// Adds to the work of the transaction the sum, with other servers, of the next
// round of a mirrored `key`, if that round is complete and the one before is
// applied.
void BeginExchange(Transaction& transaction, StoredKey& key);

// Makes each partial sum and puts the sums in their places; those over servers
// are only begun. REQUIRES: the mutex is not held.
void RunPartialSums(NamespaceState& state, std::vector<PartialSumOfKey> jobs);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_ROUND_ENDINGS_H_
