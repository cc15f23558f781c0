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

  // Returns the caller, to be completed before the call is handled.
  Caller& caller() { return caller_; }
  // Takes what the call is of its caller's quota, until it is answered or
  // waits. Errors: ResourceExhausted.
  absl::Status TakeShare(const AccessControl* access);

  // Has `handler` answer the call, unless the caller has given up. The call may
  // be gone when this returns. `bytes` are its request.
  void Handle(const Handler& handler, grpc::ByteBuffer* bytes);
  // Ends the call.
  void Respond(absl::StatusOr<grpc::ByteBuffer> reply);
  // Ends a call that has no message, mostly because its peer has gone. gRPC
  // may not know that yet: the observer hears of it when the call is done.
  void RefuseEmpty();

  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override;

 private:
  void Report(const absl::Status& status);

  const Method method_;
  const uint64_t request_bytes_;
  grpc::CallbackServerContext& context_;
  Caller caller_;
  // Null: the caller has no quota.
  std::shared_ptr<CallerQuotas::Share> share_;
  const std::chrono::system_clock::time_point deadline_;
  const std::chrono::steady_clock::time_point start_;
  // When it came to its handler.
  std::optional<std::chrono::steady_clock::time_point> handled_;
  const std::shared_ptr<Cancellation> cancellation_;
  bool is_empty_ = false;  // it has no message
  grpc::ByteBuffer& reply_;
  CallObserver& observer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_UNARY_CALL_H_
