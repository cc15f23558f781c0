// One unary call on gRPC's callback API.

#ifndef TENSORKV_SERVICE_RPC_UNARY_CALL_H_
#define TENSORKV_SERVICE_RPC_UNARY_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>

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

  // Who makes the call; to be completed before it is handled.
  Caller& caller() { return caller_; }
  // Takes what the call is of its caller's quota, until it is answered.
  // Errors: ResourceExhausted.
  absl::Status TakeShare(const AccessControl* access);
  // What the store needs to know of the caller, to which the call goes now.
  CallContext context();

  // Whether the caller has given up.
  bool is_cancelled() const { return cancellation_->is_cancelled(); }

  // Ends the call with what the handler answers.
  Responder responder();

  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  void Respond(absl::StatusOr<grpc::ByteBuffer> reply);

  const Method method_;
  const uint64_t request_bytes_;
  grpc::CallbackServerContext& context_;
  Caller caller_;
  CallerQuotas::Share share_;
  const std::chrono::system_clock::time_point deadline_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point handled_;
  const std::shared_ptr<Cancellation> cancellation_;
  grpc::ByteBuffer& reply_;
  CallObserver& observer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_UNARY_CALL_H_
