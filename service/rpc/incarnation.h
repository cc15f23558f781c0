// Tells callers which incarnation of the server they talk to.

#ifndef TENSORKV_SERVICE_RPC_INCARNATION_H_
#define TENSORKV_SERVICE_RPC_INCARNATION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"

namespace tensorkv {

// The identity of the state that this server has: of a process from its start
// to its end. Immutable, thread-safe.
class Incarnation {
 public:
  explicit Incarnation(uint64_t id);

  uint64_t id() const { return id_; }

  // Names the incarnation in the reply's metadata, unless the call has named
  // it: then the caller knows. Before the call's first reply or finish.
  // Errors: FailedPrecondition (the call expects another incarnation) ·
  // InvalidArgument (it expects what is none).
  absl::Status Greet(grpc::CallbackServerContext& context) const;

 private:
  const uint64_t id_;
  const std::string text_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_INCARNATION_H_
