#include "client/internal/unary_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "client/internal/message_bytes.h"
#include "client/internal/pull_reply_decoder.h"
#include "contract/grpc_bytes.h"
#include "contract/message_writer.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

using grpc::internal::RpcMethod;

absl::StatusOr<grpc::ByteBuffer> Limited(const EncodedMessage& message,
                                         size_t max_message_bytes) {
  RETURN_IF_ERROR(CheckMessageSize(message.size_bytes(), max_message_bytes));
  return ToByteBuffer(message);
}

absl::StatusOr<PushReply> DecodePushReply(grpc::ByteBuffer* bytes,
                                          uint32_t max_results) {
  grpc::ProtoBufferReader reader(bytes);
  std::optional<PushReply> reply =
      ReadPushReply(&reader, bytes->Length(), max_results);
  if (reply) return *std::move(reply);
  v1::PushResponse response;
  RETURN_IF_ERROR(Parse(bytes, &response));
  return FromProto(response);
}

// What the caller states, but no more than the channel takes: else the server
// would push, and the reply would be refused here.
template <typename Request>
uint64_t MaxReplyBytes(const Request& request, uint64_t max_message_bytes) {
  return request.max_reply_bytes == 0
             ? max_message_bytes
             : std::min(request.max_reply_bytes, max_message_bytes);
}

}  // namespace

UnaryCalls::UnaryCalls(std::shared_ptr<grpc::Channel> channel,
                       KnownServer* server, size_t max_message_bytes,
                       RefPtr<BufferPool> buffers)
    : channel_(std::move(channel)),
      server_(*server),
      max_message_bytes_(max_message_bytes),
      buffers_(std::move(buffers)),
      init_("/tensorkv.v1.TensorKV/Init", RpcMethod::NORMAL_RPC, channel_),
      push_("/tensorkv.v1.TensorKV/Push", RpcMethod::NORMAL_RPC, channel_),
      pull_("/tensorkv.v1.TensorKV/Pull", RpcMethod::NORMAL_RPC, channel_),
      push_pull_("/tensorkv.v1.TensorKV/PushPull", RpcMethod::NORMAL_RPC,
                 channel_) {}

absl::StatusOr<grpc::ByteBuffer> UnaryCalls::Call(
    const Method& method, const grpc::ByteBuffer& request,
    const CallDeadline& deadline) {
  grpc::ClientContext context;
  deadline.ApplyTo(context);
  server_.ApplyTo(context);
  grpc::ByteBuffer reply;
  const grpc::Status status = grpc::internal::BlockingUnaryCall(
      channel_.get(), method, &context, request, &reply);
  RETURN_IF_ERROR(deadline.StatusOf(status));
  server_.LearnFrom(context);
  return reply;
}

absl::StatusOr<InitReply> UnaryCalls::Init(const InitRequest& request,
                                           const CallDeadline& deadline) {
  ASSIGN_OR_RETURN(const grpc::ByteBuffer message,
                   Limited(EncodeInit(request), max_message_bytes_));
  ASSIGN_OR_RETURN(grpc::ByteBuffer reply, Call(init_, message, deadline));
  v1::InitResponse response;
  RETURN_IF_ERROR(Parse(&reply, &response));
  return FromProto(response);
}

absl::StatusOr<PushReply> UnaryCalls::Push(const PushRequest& request,
                                           const CallDeadline& deadline) {
  ASSIGN_OR_RETURN(const grpc::ByteBuffer message,
                   Limited(EncodePush(request), max_message_bytes_));
  ASSIGN_OR_RETURN(grpc::ByteBuffer reply, Call(push_, message, deadline));
  return DecodePushReply(&reply, request.entries.size());
}

absl::StatusOr<PullReply> UnaryCalls::Pull(const PullRequest& request,
                                           const CallDeadline& deadline) {
  ASSIGN_OR_RETURN(
      const grpc::ByteBuffer message,
      Limited(EncodePull(request, MaxReplyBytes(request, max_message_bytes_)),
              max_message_bytes_));
  ASSIGN_OR_RETURN(grpc::ByteBuffer reply, Call(pull_, message, deadline));
  return DecodePullReply(&reply, request.entries.size(), *buffers_);
}

absl::StatusOr<PullReply> UnaryCalls::PushPull(const PushRequest& request,
                                               const CallDeadline& deadline) {
  ASSIGN_OR_RETURN(
      const grpc::ByteBuffer message,
      Limited(
          EncodePushPull(request, MaxReplyBytes(request, max_message_bytes_)),
          max_message_bytes_));
  ASSIGN_OR_RETURN(grpc::ByteBuffer reply, Call(push_pull_, message, deadline));
  return DecodePullReply(&reply, request.entries.size(), *buffers_);
}

}  // namespace tensorkv
