// Init for tests, which do not wait for an earlier attempt.

#ifndef TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
#define TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_

#include <utility>

#include "absl/status/statusor.h"
#include "service/store/tensor_store.h"

namespace tensorkv::testing {

// The answer to an Init, which comes before the call returns.
inline absl::StatusOr<InitReply> InitNow(TensorStore& store,
                                         InitRequest request) {
  absl::StatusOr<InitReply> answer = absl::InternalError("Init: no answer yet");
  store.Init(
      std::move(request), CallContext(),
      [&](absl::StatusOr<InitReply> reply) { answer = std::move(reply); });
  return answer;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
