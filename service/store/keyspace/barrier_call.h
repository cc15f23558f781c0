// Barrier: all workers wait for each other.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_BARRIER_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_BARRIER_CALL_H_

#include "absl/status/status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// As in Membership.
void Barrier(NamespaceState& state, BarrierRequest request, CallContext context,
             ReplyCallback<BarrierReply> done);

// Ends the barriers that nobody is missing at any more.
void EndBarriers(Transaction& transaction);
// Ends all of them with `status`.
void FailBarriers(Transaction& transaction, const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_BARRIER_CALL_H_
