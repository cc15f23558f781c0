// Does what follows when rounds of a key close, fail, or go with their key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUND_ENDINGS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUND_ENDINGS_H_

#include <vector>

#include "service/store/keyspace/push_mode.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Has the updates of closed rounds run, and the sums scaled that need it.
void CloseRounds(Transaction& transaction, StoredKey& key,
                 PendingUpdates updates);
void CloseRounds(Transaction& transaction, StoredKey& key, ClosedRounds closed);

// Fails the rounds of `key` from `step` on, which their contributors must then
// push again. The caller wakes who waits for them.
void FailRounds(Transaction& transaction, StoredKey& key, Step step,
                const RoundFailurePtr& failure);

// Takes the rounds of a key that goes, which nobody must push again any more.
void RemoveRounds(Transaction& transaction, StoredKey& key);

// Has the first contributions of a round of `key` summed, if there are enough.
void BeginPartialSum(Transaction& transaction, StoredKey& key);

// Has the next round of a mirrored `key` summed with other servers, if it is
// complete, and the sum before is applied.
void BeginExchange(Transaction& transaction, StoredKey& key);

// Makes each partial sum, without the mutex, and puts the sums in
// their places.
void RunPartialSums(NamespaceState& state, std::vector<PartialSumOfKey> jobs);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUND_ENDINGS_H_
