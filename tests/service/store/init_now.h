// Init, SetState and GetState for tests, which wait for their answers.

#ifndef TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
#define TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_

#include <utility>

#include "absl/status/statusor.h"
#include "service/store/tensor_store.h"

namespace tensorkv::testing {

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
