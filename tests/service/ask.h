// Makes a call and waits for its reply.

#ifndef TENSORKV_TESTS_SERVICE_ASK_H_
#define TENSORKV_TESTS_SERVICE_ASK_H_

#include <utility>

#include "absl/status/statusor.h"
#include "base/answer.h"
#include "service/store/call_dispatch.h"

namespace tensorkv::testing {

template <typename Request>
absl::StatusOr<ReplyTo<Request>> Ask(const CallDispatch& calls, Request request,
                                     CallContext context = {}) {
  using Reply = absl::StatusOr<ReplyTo<Request>>;
  const Answer<Reply> answer;
  calls.Make(std::move(request), std::move(context),
             [answer](Reply reply) { answer.Set(std::move(reply)); });
  return answer.Wait();
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_ASK_H_
