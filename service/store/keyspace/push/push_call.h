// A push on its way to its admission.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CALL_H_

#include "service/store/keyspace/namespace_state.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

struct PushCall {
  PushRequest request;
  CallContext context;
  // Not null: the pull with which a PushPull goes on, so that its reply counts
  // too. It takes the names of the entries once the push is in.
  PullRequest* pull = nullptr;
  ReplyCallback<PushReply> done;
};

// Pushes as TensorStore says.
void StartPush(NamespaceState& state, PushCall call);
// Does so on a thread of the pool, for which the call waits as long as it may.
void PushOnPool(NamespaceState& state, PushCall call);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CALL_H_
