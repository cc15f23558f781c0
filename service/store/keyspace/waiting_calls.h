// Starts, wakes and ends the calls of a namespace that may wait.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WAITING_CALLS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WAITING_CALLS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waits.h"

namespace tensorkv {

// Whoever ends a call (a change that it waits for, its deadline, its caller,
// the end of the namespace) first takes it from `waits` and sets is_finished,
// with the mutex held: so it is ended once, and its answer is sent by the
// transaction that has ended it.

// Ends the call now if it can end; else parks it, and has its deadline and its
// cancellation end it.
void StartCall(NamespaceState& state, const WaitingCallPtr& call);
// Ends the call, whose answer is ready and which is not parked: the transaction
// sends the answer.
void EndCall(Transaction& transaction, const WaitingCallPtr& call);

// Look again at the calls that are parked at `topic`, or at all: each ends or
// is parked again.
void Wake(Transaction& transaction, absl::string_view topic);
void WakeAll(Transaction& transaction);

// Ends with `status` those of the parked calls that `must_end` names.
void FailCalls(Transaction& transaction,
               absl::FunctionRef<bool(const WaitingCall&)> must_end,
               const absl::Status& status);
// Ends with `status` a call that is parked.
void FailCall(Transaction& transaction, const WaitingCallPtr& call,
              const absl::Status& status);

// Checks that a call that takes long is still wanted. Errors: Cancelled · the
// status that has ended all waits.
absl::Status CheckIsWanted(const NamespaceState& state,
                           const CallContext& context);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WAITING_CALLS_H_
