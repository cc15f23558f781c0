// Calls of one message in each direction.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_UNARY_CALLS_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_UNARY_CALLS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "client/destination.h"
#include "client/internal/calls/call_deadline.h"
#include "client/internal/calls/task.h"
#include "client/internal/transfer/server_incarnation.h"
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
// their memory. Thread-safe. Calls that block poll the connection on their own
// thread, which is the fastest way to an answer.
//
// Errors: those of the verb · Internal (a reply that makes no sense) ·
// ResourceExhausted (a message above the limit) · those of WaitQueue.
class UnaryCalls {
 public:
  // Values of `ticket_from_bytes` or more come by a ticket. Tensors that come
  // have memory from `buffers`, and so have the requests of many small entries.
  UnaryCalls(std::shared_ptr<grpc::Channel> channel, ServerIncarnation* server,
             size_t max_message_bytes, uint64_t ticket_from_bytes,
             RefPtr<BufferPool> buffers);

  // Makes a call. If it `blocks`, the calling thread waits; else none does, and
  // the task goes on on a thread of WaitQueue. Values are received into
  // `destinations` if all fit; where there is a ticket, the tensors have memory
  // without contents. Defined for the request of every unary method.
  template <typename Request>
  Task<absl::StatusOr<ReplyTo<Request>>> Call(
      const Request& request, const CallDeadline& deadline,
      absl::Span<const Destination> destinations, bool blocks);

 private:
  // Says which incarnation of the server a call expects. Only kTheKnownOne
  // makes another one refuse the call. The incarnation that answers becomes the
  // known one: never · if none is known yet · in any case · if none is known
  // yet.
  enum class Expects { kNothing, kNothingYet, kAnyIncarnation, kTheKnownOne };
  template <typename Request>
  static Expects ExpectationOf(const Request& request);

  // Keeps the incarnation of the server that has answered, as `expects` says.
  void Learn(Expects expects, const grpc::ClientContext& context);

  const std::shared_ptr<grpc::Channel> channel_;
  ServerIncarnation& server_;
  const size_t max_message_bytes_;
  const uint64_t ticket_from_bytes_;
  const RefPtr<BufferPool> buffers_;
  // By method.
  std::vector<grpc::internal::RpcMethod> methods_;  // const once built
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_UNARY_CALLS_H_
