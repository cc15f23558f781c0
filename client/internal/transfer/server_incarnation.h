// Remembers which incarnation of its server a client has seen.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_SERVER_INCARNATION_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_SERVER_INCARNATION_H_

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
  // Makes the call of `context`, before it begins, expect the known
  // incarnation. Does nothing while none is known.
  void ApplyTo(grpc::ClientContext& context) const;

  // Keeps the incarnation that the reply names, if none is known. REQUIRES: the
  // call has ended well.
  void LearnFrom(const grpc::ClientContext& context);
  // Keeps the incarnation that the reply names, in place of the known one.
  // REQUIRES: the call has ended well, and took any incarnation.
  void ReplaceFrom(const grpc::ClientContext& context);

  // Returns 0 before the first reply.
  uint64_t incarnation() const { return incarnation_; }

 private:
  std::atomic<uint64_t> incarnation_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_SERVER_INCARNATION_H_
