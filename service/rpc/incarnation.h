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
  // `health` tells whether the state is still there; null means always.
  explicit Incarnation(uint64_t id,
                       std::function<absl::Status()> health = nullptr);

  uint64_t id() const { return id_; }
  // Gives the server another identity: it remembers in part what a checkpoint
  // does, and callers that know the former identity hear so.
  void Change(uint64_t id) { id_ = id; }

  // Names the incarnation in the reply's metadata, unless the call has named
  // it: then the caller knows. Before the call's first reply or finish. A call
  // that expects another incarnation, of a method whose answers are remembered,
  // is let in with what it is told unless its own is.
  // Errors: FailedPrecondition (the call expects another incarnation) ·
  // InvalidArgument (it expects what is none) · what `health` tells.
  absl::Status CheckIncarnation(Method method,
                                grpc::CallbackServerContext& context,
                                Caller& caller) const;

 private:
  absl::Status CheckExpected(grpc::CallbackServerContext& context) const;

  std::atomic<uint64_t> id_;
  const std::function<absl::Status()> health_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_INCARNATION_H_
