// The ends of pulls that wait for keys and rounds which have gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CALL_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Whether the caller takes values of so many bytes. Errors: ResourceExhausted
// (REPLY_TOO_LARGE).
absl::Status CheckReplyBytes(const PullReply& reply, uint64_t max_bytes);

// Both look at no other pulls than those that hear when `key` goes.

// Ends the waiting pulls that cannot be answered without that key, which is
// deleted.
void EndPullsOf(Transaction& transaction, const StoredKey& key);

// Ends with `status` the waiting pulls of workers who had contributed to rounds
// of `key` that are open, and go.
void EndPullsOfRounds(Transaction& transaction, const StoredKey& key,
                      absl::FunctionRef<absl::Status()> status);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CALL_H_
