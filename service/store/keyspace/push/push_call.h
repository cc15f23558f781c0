// A push on its way to its admission.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CALL_H_

#include <vector>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// The value that an entry of a push builds on.
struct DeltaBase {
  // 0: the entry builds on none. No key has kNoVersion.
  Version version = 0;
  // The dtype in which the caller has the value.
  DType dtype = DType::kUnknown;
};
inline constexpr Version kNoVersion = UINT64_MAX;

struct PushCall {
  PushRequest request;
  CallContext context;
  // Not null: the pull with which a PushPull goes on, so that its reply counts
  // too. It takes the names of the entries once the push is in.
  PullRequest* pull = nullptr;
  ReplyCallback<PushReply> done;
  // StartPush says whether some entries are deltas.
  bool has_deltas = false;
  // What the keys must have when the push is admitted, by its entries, as
  // BasesOf returns it; empty until its deltas are decoded.
  std::vector<DeltaBase> bases;
};

// Pushes as TensorStore says.
void StartPush(NamespaceState& state, PushCall call);
// Does so on a thread of the pool, for which the call waits as long as it may.
void PushOnPool(NamespaceState& state, PushCall call);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CALL_H_
