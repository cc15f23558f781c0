#include "service/rpc/unary_call.h"

#include <utility>

#include "absl/time/time.h"
#include "contract/grpc_status.h"
#include "service/rpc/wait_bound.h"

namespace tensorkv {

UnaryCall::UnaryCall(Method method, uint64_t request_bytes,
                     const grpc::CallbackServerContext& context,
                     grpc::ByteBuffer* reply, CallObserver* observer)
    : method_(method),
      request_bytes_(request_bytes),
      deadline_(context.deadline()),
      start_(std::chrono::steady_clock::now()),
      handled_(start_),
      cancellation_(std::make_shared<Cancellation>()),
      reply_(*reply),
      observer_(*observer) {
  observer_.Started(method_);
}

CallContext UnaryCall::context() {
  handled_ = std::chrono::steady_clock::now();
  return {.caller = caller_,
          .timeout = TimeLeft(deadline_),
          .cancellation = cancellation_};
}

Responder UnaryCall::responder() {
  return [this](absl::StatusOr<grpc::ByteBuffer> reply) {
    Respond(std::move(reply));
  };
}

void UnaryCall::Respond(absl::StatusOr<grpc::ByteBuffer> reply) {
  if (reply.ok()) reply_.Swap(&*reply);
  observer_.Handled(
      method_,
      {.code = reply.status().code(),
       .duration = absl::FromChrono(std::chrono::steady_clock::now() - start_),
       .request_bytes = request_bytes_,
       .reply_bytes = reply_.Length(),
       .arriving = absl::FromChrono(handled_ - start_),
       .message = reply.status().message(),
       .caller = &caller_});
  // Last: gRPC may delete this call before Finish returns.
  Finish(ToGrpcStatus(reply.status()));
}

}  // namespace tensorkv
