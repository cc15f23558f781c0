// Init for tests, which waits for its answer.

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

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_INIT_NOW_H_
