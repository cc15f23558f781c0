// Init, SetState and GetState for tests, which wait for their answers.

#ifndef TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
#define TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_

#include <utility>

#include "absl/status/statusor.h"
#include "base/answer.h"
#include "service/store/tensor_store.h"

namespace tensorkv::testing {

// The answer to an Init.
inline absl::StatusOr<InitReply> InitNow(TensorStore& store,
                                         InitRequest request) {
  const Answer<absl::StatusOr<InitReply>> answer;
  store.Init(std::move(request), CallContext(),
             [answer](absl::StatusOr<InitReply> reply) {
               answer.Set(std::move(reply));
             });
  return answer.Wait();
}

// The answers to a SetState and a GetState.
inline absl::StatusOr<SetStateReply> SetStateNow(TensorStore& store,
                                                 SetStateRequest request) {
  const Answer<absl::StatusOr<SetStateReply>> answer;
  store.SetState(std::move(request), CallContext(),
                 [answer](absl::StatusOr<SetStateReply> reply) {
                   answer.Set(std::move(reply));
                 });
  return answer.Wait();
}
inline absl::StatusOr<GetStateReply> GetStateNow(TensorStore& store,
                                                 GetStateRequest request) {
  const Answer<absl::StatusOr<GetStateReply>> answer;
  store.GetState(std::move(request), CallContext(),
                 [answer](absl::StatusOr<GetStateReply> reply) {
                   answer.Set(std::move(reply));
                 });
  return answer.Wait();
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
