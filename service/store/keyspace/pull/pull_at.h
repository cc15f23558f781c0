// Pulls what a snapshot has.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_AT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_AT_H_

#include "service/store/keyspace/namespace_state.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Starts a pull of a request that has `at`, whose fields are right; `done` is
// called once, now or when the snapshot is there.
void StartPullAt(NamespaceState& state, PullRequest request,
                 CallContext context, ReplyCallback<PullReply> done);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_AT_H_
