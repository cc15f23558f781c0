// What a push is asked for the sake of the pull with which a PushPull goes on.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_REPLY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_REPLY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/entries_by_key.h"

namespace tensorkv {

// Checks that the values of the keys can be converted to `dtype`, unless it is
// unknown, and sent in at most `max_bytes`. REQUIRES: the mutex is held.
// Errors: InvalidArgument · ResourceExhausted (REPLY_TOO_LARGE, OVER_BUDGET).
absl::Status CheckReply(const NamespaceState& state, const PushRequest& request,
                        const EntriesByKey& entries, DType dtype,
                        uint64_t max_bytes);

// Returns the bytes that the reply will take of the budget, beyond those that
// the push has now and that are free when it has taken effect.
uint64_t BytesForReply(const NamespaceState& state, const PushRequest& request,
                       const EntriesByKey& entries, DType dtype);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_REPLY_H_
