// Calls of a store for tests, which wait for their answers.

#ifndef TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
#define TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_

#include <utility>

#include "absl/status/statusor.h"
#include "service/store/call_dispatch.h"
#include "service/store/memory_tensor_store.h"

namespace tensorkv::testing {

// The outcome of a call of any verb.
template <typename Request>
OutcomeOfCall<Request> MakeNow(MemoryTensorStore& store, Request request,
                               CallContext context = {}) {
  const CallDispatch calls(
      {.store = &store, .namespaces = &store, .staging = &store});
  absl::StatusOr<ReplyTo<Request>> reply =
      calls.MakeAndWait(std::move(request), std::move(context));
  if constexpr (kIsEmptyReply<ReplyTo<Request>>) {
    return reply.status();
  } else {
    return reply;
  }
}

// The answer to an Init.
inline absl::StatusOr<InitReply> InitNow(TensorStore& store,
                                         InitRequest request) {
  return Await<InitReply>([&](ReplyCallback<InitReply> done) {
    store.Init(std::move(request), CallContext(), std::move(done));
  });
}

// The answers to a SetState and a GetState.
inline absl::StatusOr<SetStateReply> SetStateNow(TensorStore& store,
                                                 SetStateRequest request) {
  return Await<SetStateReply>([&](ReplyCallback<SetStateReply> done) {
    store.SetState(std::move(request), CallContext(), std::move(done));
  });
}
inline absl::StatusOr<GetStateReply> GetStateNow(TensorStore& store,
                                                 GetStateRequest request) {
  return Await<GetStateReply>([&](ReplyCallback<GetStateReply> done) {
    store.GetState(std::move(request), CallContext(), std::move(done));
  });
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
