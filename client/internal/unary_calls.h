// The calls that carry tensors in one message.

#ifndef TENSORKV_CLIENT_INTERNAL_UNARY_CALLS_H_
#define TENSORKV_CLIENT_INTERNAL_UNARY_CALLS_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "client/internal/call_deadline.h"
#include "client/internal/known_server.h"
#include "contract/requests.h"
#include "grpcpp/channel.h"
#include "grpcpp/impl/codegen/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Makes Init, Push, Pull and PushPull with messages that reference the tensors
// sent, and reads the tensors that come straight into their memory.
// Thread-safe; calls block until their answer or deadline, and poll the
// connection on their own thread, which is the fastest way to an answer.
//
// Errors: those of the verb · Internal (a reply that makes no sense) ·
// ResourceExhausted (a message above the limit).
class UnaryCalls {
 public:
  // The tensors that come have memory from `buffers`.
  UnaryCalls(std::shared_ptr<grpc::Channel> channel, KnownServer* server,
             size_t max_message_bytes, RefPtr<BufferPool> buffers);

  absl::StatusOr<InitReply> Init(const InitRequest& request,
                                 const CallDeadline& deadline);
  absl::StatusOr<PushReply> Push(const PushRequest& request,
                                 const CallDeadline& deadline);
  absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                 const CallDeadline& deadline);
  absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                     const CallDeadline& deadline);

 private:
  using Method = grpc::internal::RpcMethod;

  absl::StatusOr<grpc::ByteBuffer> Call(const Method& method,
                                        const grpc::ByteBuffer& request,
                                        const CallDeadline& deadline);

  const std::shared_ptr<grpc::Channel> channel_;
  KnownServer& server_;
  const size_t max_message_bytes_;
  const RefPtr<BufferPool> buffers_;
  const Method init_;
  const Method push_;
  const Method pull_;
  const Method push_pull_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_UNARY_CALLS_H_
