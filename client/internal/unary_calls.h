// Calls of one message in each direction.

#ifndef TENSORKV_CLIENT_INTERNAL_UNARY_CALLS_H_
#define TENSORKV_CLIENT_INTERNAL_UNARY_CALLS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "client/destination.h"
#include "client/internal/call_deadline.h"
#include "client/internal/server_incarnation.h"
#include "contract/any_call.h"
#include "contract/method.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Makes calls whose request is one message, and whose reply is another.
// Messages reference the tensors sent; tensors that come are read straight into
// their memory. Thread-safe; calls block until their answer or deadline, and
// poll the connection on their own thread, which is the fastest way to an
// answer.
//
// Errors: those of the verb · Internal (a reply that makes no sense) ·
// ResourceExhausted (a message above the limit).
class UnaryCalls {
 public:
  // Tensors that come have memory from `buffers`, and so have the requests of
  // many small entries.
  UnaryCalls(std::shared_ptr<grpc::Channel> channel, ServerIncarnation* server,
             size_t max_message_bytes, RefPtr<BufferPool> buffers);

  // Defined for the request of every unary method. Values are received into
  // `destinations` if all fit.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(
      const Request& request, const CallDeadline& deadline,
      absl::Span<const Destination> destinations = {});

  template <typename Request>
  using Done = absl::AnyInvocable<void(absl::StatusOr<ReplyTo<Request>>) &&>;

  // Makes the call without waiting: `done` is told on a thread of gRPC's, or
  // before this returns. The request and the destinations outlive the call.
  template <typename Request>
  void Start(const Request& request, const CallDeadline& deadline,
             absl::Span<const Destination> destinations, Done<Request> done);

  // Returns whether the calling thread is one of gRPC's that runs the `done` of
  // a started call at present.
  static bool IsInDoneCallback();

 private:
  // Says which incarnation of the server a call expects. Only kTheKnownOne
  // makes another one refuse the call. The incarnation that answers becomes the
  // known one: never · if none is known yet · in any case · if none is known
  // yet.
  enum class Expects { kNothing, kNothingYet, kAnyIncarnation, kTheKnownOne };
  template <typename Request>
  static Expects ExpectationOf(const Request& request);

  // Makes the RPC, and returns the bytes of the reply.
  absl::StatusOr<grpc::ByteBuffer> Send(Method method, Expects expects,
                                        const grpc::ByteBuffer& request,
                                        const CallDeadline& deadline);
  // Sets the deadline of an RPC that is about to begin, and the incarnation
  // that it expects.
  void SetUpContext(Expects expects, const CallDeadline& deadline,
                    grpc::ClientContext& context) const;
  // Returns the outcome of an RPC that has ended, and keeps the incarnation of
  // the server if `expects` says so.
  absl::Status OutcomeOf(const grpc::Status& status, Expects expects,
                         const CallDeadline& deadline,
                         const grpc::ClientContext& context);

  const std::shared_ptr<grpc::Channel> channel_;
  ServerIncarnation& server_;
  const size_t max_message_bytes_;
  const RefPtr<BufferPool> buffers_;
  // By method.
  std::vector<grpc::internal::RpcMethod> methods_;  // const once built
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_UNARY_CALLS_H_
