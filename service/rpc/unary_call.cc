#include "service/rpc/unary_call.h"

#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "contract/grpc_status.h"
#include "service/rpc/caller.h"
#include "service/rpc/wait_bound.h"

namespace tensorkv {

UnaryCall::UnaryCall(Method method, uint64_t request_bytes,
                     grpc::CallbackServerContext& context,
                     grpc::ByteBuffer* reply, CallObserver* observer)
    : method_(method),
      request_bytes_(request_bytes),
      context_(context),
      deadline_(context.deadline()),
      start_(std::chrono::steady_clock::now()),
      handled_(start_),
      cancellation_(std::make_shared<Cancellation>()),
      reply_(*reply),
      observer_(*observer) {
  observer_.Started(method_);
}

absl::Status UnaryCall::TakeShare(const AccessControl* access) {
  // The lease of a worker must not end for what it has under way.
  if (method_ == Method::kKeepAlive || method_ == Method::kLeave) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(share_,
                   tensorkv::TakeShare(access, context_, caller_,
                                       {.calls = 1, .bytes = request_bytes_}));
  return absl::OkStatus();
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
  TellRetryDelay(reply.status(), context_);
  // Whoever has the answer may make the next call.
  share_.Release();
  // Last: gRPC may delete this call before Finish returns.
  Finish(ToGrpcStatus(reply.status()));
}

}  // namespace tensorkv
