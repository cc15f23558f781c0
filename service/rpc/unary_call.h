// One unary call on gRPC's callback API.

#ifndef TENSORKV_SERVICE_RPC_UNARY_CALL_H_
#define TENSORKV_SERVICE_RPC_UNARY_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "service/metrics/call_observer.h"
#include "service/rpc/handlers.h"
#include "service/security/access_control.h"
#include "service/store/cancellation.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Carries one call from its start to its reply: tells the observer, turns the
// client's deadline and cancellation into a CallContext, and finishes.
//
// Thread-safe. Deletes itself when gRPC is done with the call, which is after
// the responder has been called.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // `context` and `reply` belong to gRPC until the call is done; `observer`
  // outlives the call.
  UnaryCall(Method method, uint64_t request_bytes,
            grpc::CallbackServerContext& context, grpc::ByteBuffer* reply,
            CallObserver* observer);

  // Returns the caller, which must be filled in before Handle.
  Caller& caller() { return caller_; }
  // Takes the call and its bytes from the caller's quota, until the call is
  // answered or waits. Takes nothing for KeepAlive and Leave, and for what
  // servers ask of each other. Errors: ResourceExhausted.
  absl::Status TakeShare(const AccessControl* access);

  // Has `handler` answer the call; if the caller has given up, answers with
  // Cancelled instead. `bytes` are the request. The call may be deleted when
  // this returns.
  void Handle(const Handler& handler, grpc::ByteBuffer* bytes);
  // Finishes the call with the reply or error, and tells the observer. The call
  // may be deleted when this returns.
  void Respond(absl::StatusOr<grpc::ByteBuffer> reply);
  // Finishes, with an error, a call that has no message, mostly because its
  // peer has gone. gRPC may not know that yet, so the observer hears of the end
  // in OnDone.
  void RefuseEmpty();

  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override;

 private:
  void Report(const absl::Status& status);

  const Method method_;
  const uint64_t request_bytes_;
  grpc::CallbackServerContext& context_;
  Caller caller_;
  // Null once the call is handled, or if the caller has no quota.
  std::shared_ptr<CallerQuotas::Share> unhandled_share_;
  std::weak_ptr<CallerQuotas::Share> share_;
  const std::chrono::system_clock::time_point deadline_;
  const std::chrono::steady_clock::time_point start_;
  // When Handle was called; unset if it was not.
  std::optional<std::chrono::steady_clock::time_point> handled_;
  const std::shared_ptr<Cancellation> cancellation_;
  bool is_empty_ = false;  // it has no message
  grpc::ByteBuffer& reply_;
  CallObserver& observer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_UNARY_CALL_H_
