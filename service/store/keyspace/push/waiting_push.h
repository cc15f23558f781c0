// A push that waits for slower workers before it takes effect.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_WAITING_PUSH_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_WAITING_PUSH_H_

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/push_call.h"

namespace tensorkv {

// Returns whether the worker would run too far ahead of the others; not if the
// push will be refused anyway.
bool MustWaitForOthers(const NamespaceState& state, const PushRequest& request);

// Parks the push, on no thread, until its worker is no longer too far ahead;
// then the pool runs it from its start, with the rest of its time. If the wait
// ends before, its caller hears of its error.
void ParkPush(NamespaceState& state, PushCall call);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_WAITING_PUSH_H_
