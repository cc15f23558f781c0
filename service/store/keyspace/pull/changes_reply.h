// Answers pulls that ask for what has changed since what their callers hold.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CHANGES_REPLY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CHANGES_REPLY_H_

#include <vector>

#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/held_values.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Puts deltas from `bases` in the place of values of `reply`, which have tokens
// and are not converted yet, and answers: now, if all are there that there is
// memory for, or when they are, or the call is not wanted any more. Encodes
// nothing itself. Errors: those of SendReply · Cancelled · DeadlineExceeded.
// REQUIRES: the mutex is free.
void SendChanges(NamespaceState& state, ReplyTerms terms,
                 std::vector<HeldValues::Base> bases, PullReply reply,
                 ReplyCallback<PullReply> done);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_CHANGES_REPLY_H_
