// The ends of pulls that wait for keys and rounds which have gone.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CALL_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/keyspace/round_endings.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Whether the caller takes values of so many bytes. Errors: ResourceExhausted
// (REPLY_TOO_LARGE).
absl::Status CheckReplyBytes(const PullReply& reply, uint64_t max_bytes);

// Ends the waiting pulls that cannot be answered without that key, which goes.
void EndPullsOf(Transaction& transaction, const StoredKey& key);

// Ends the waiting pulls of workers who had contributed to rounds that are
// gone, each with the status of its key.
void EndPullsOfRounds(
    Transaction& transaction, const RoundsOfKeys& ended,
    absl::FunctionRef<absl::Status(absl::string_view)> status_of);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CALL_H_
