// Remembers which incarnation of its server a client has seen.

#ifndef TENSORKV_CLIENT_INTERNAL_SERVER_INCARNATION_H_
#define TENSORKV_CLIENT_INTERNAL_SERVER_INCARNATION_H_

#include <atomic>
#include <cstdint>

#include "grpcpp/client_context.h"

namespace tensorkv {

// Takes the server's incarnation from the first reply that names it, and makes
// calls after that expect it, but for those that take any: a server that was
// restarted without its state refuses such a call, so that the client never
// computes on an empty store. Thread-safe.
class ServerIncarnation {
 public:
  // Before a call begins.
  void ApplyTo(grpc::ClientContext& context) const;

  // After a call has ended well.
  void LearnFrom(const grpc::ClientContext& context);
  // Takes what the reply names in place of what was known before, after a call
  // that ended well and took whatever incarnation there is.
  void ReplaceFrom(const grpc::ClientContext& context);

  // Returns 0 before the first reply.
  uint64_t incarnation() const { return incarnation_; }

 private:
  std::atomic<uint64_t> incarnation_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_SERVER_INCARNATION_H_
