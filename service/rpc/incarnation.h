// Tells callers which incarnation of the server they talk to.

#ifndef TENSORKV_SERVICE_RPC_INCARNATION_H_
#define TENSORKV_SERVICE_RPC_INCARNATION_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "contract/method.h"
#include "grpcpp/server_context.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// The identity of the state that this server has: of a process from its start
// to its end, unless it takes over what another one had. Thread-safe.
class Incarnation {
 public:
  // `health` returns an error if the state is lost; null means that it never
  // is.
  explicit Incarnation(uint64_t id,
                       std::function<absl::Status()> health = nullptr);

  uint64_t id() const { return id_; }
  // Gives the server another identity, after it has restored a checkpoint:
  // callers that expect the former identity are told so from then on.
  void Change(uint64_t id) { id_ = id; }

  // Checks that the call expects this incarnation, or states none: then adds
  // this one to the reply's initial metadata. A call of a method whose answers
  // are remembered passes even if it expects another: the error goes to
  // caller.unless_remembered. REQUIRES: the call has had no reply and is not
  // finished. Errors: FailedPrecondition (the call expects another incarnation)
  // · InvalidArgument (it expects what is none) · what `health` returns.
  absl::Status CheckIncarnation(Method method,
                                grpc::CallbackServerContext& context,
                                Caller& caller) const;

 private:
  // Checks what the call expects, or adds this incarnation to the reply.
  absl::Status CheckExpected(grpc::CallbackServerContext& context) const;

  std::atomic<uint64_t> id_;
  const std::function<absl::Status()> health_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_INCARNATION_H_
