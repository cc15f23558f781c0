#include "service/rpc/unary_call.h"

#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "contract/grpc_status.h"
#include "service/rpc/caller.h"
#include "service/rpc/wait_bound.h"

namespace tensorkv {
namespace {

absl::Status NoMessage() {
  return absl::InvalidArgumentError("request: expected a message, got none");
}

}  // namespace

UnaryCall::UnaryCall(Method method, uint64_t request_bytes,
                     grpc::CallbackServerContext& context,
                     grpc::ByteBuffer* reply, CallObserver* observer)
    : method_(method),
      request_bytes_(request_bytes),
      context_(context),
      deadline_(context.deadline()),
      start_(std::chrono::steady_clock::now()),
      cancellation_(std::make_shared<Cancellation>()),
      reply_(*reply),
      observer_(*observer) {
  observer_.Started(method_);
}

absl::Status UnaryCall::TakeShare(const AccessControl* access) {
  // The lease of a worker must not end for what it has under way, and the
  // rounds of all workers wait for the servers.
  if (method_ == Method::kKeepAlive || method_ == Method::kLeave ||
      ServiceOf(method_) == Service::kPeer) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(CallerQuotas::Share share,
                   tensorkv::TakeShare(access, context_, caller_,
                                       {.calls = 1, .bytes = request_bytes_}));
  if (!share.is_empty()) {
    unhandled_share_ = std::make_shared<CallerQuotas::Share>(std::move(share));
    share_ = unhandled_share_;
  }
  return absl::OkStatus();
}

void UnaryCall::Handle(const Handler& handler, grpc::ByteBuffer* bytes) {
  if (cancellation_->is_cancelled()) {
    return Respond(absl::CancelledError("the caller has given up"));
  }
  handled_ = std::chrono::steady_clock::now();
  // When this returns the call has been answered, or somebody works for it and
  // keeps the share, or it waits, for other calls maybe, which must not be
  // refused because of it.
  const std::shared_ptr<CallerQuotas::Share> share =
      std::move(unhandled_share_);
  handler.run(bytes,
              {.caller = caller_,
               .timeout = TimeLeft(deadline_),
               .cancellation = cancellation_,
               .share = share},
              [this](absl::StatusOr<grpc::ByteBuffer> reply) {
                Respond(std::move(reply));
              });
}

void UnaryCall::Respond(absl::StatusOr<grpc::ByteBuffer> reply) {
  if (reply.ok()) reply_.Swap(&*reply);
  Report(reply.status());
  AddRetryPushback(reply.status(), context_);
  // Whoever has the answer may make the next call.
  if (const auto share = share_.lock()) share->Release();
  // Last: gRPC may delete this call before Finish returns.
  Finish(ToGrpcStatus(reply.status()));
}

void UnaryCall::RefuseEmpty() {
  is_empty_ = true;
  Finish(ToGrpcStatus(NoMessage()));
}

void UnaryCall::OnDone() {
  if (is_empty_) {
    Report(context_.IsCancelled() ? absl::CancelledError("it has no message")
                                  : NoMessage());
  }
  delete this;
}

void UnaryCall::Report(const absl::Status& status) {
  const auto now = std::chrono::steady_clock::now();
  observer_.Handled(
      method_, {.code = status.code(),
                .duration = absl::FromChrono(now - start_),
                .request_bytes = request_bytes_,
                .reply_bytes = reply_.Length(),
                .arriving = absl::FromChrono(handled_.value_or(now) - start_),
                .message = status.message(),
                .caller = &caller_});
}

}  // namespace tensorkv
