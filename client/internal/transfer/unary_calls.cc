#include "client/internal/transfer/unary_calls.h"

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/status_macros.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/transfer/message_bytes.h"
#include "client/internal/transfer/pull_reply_decoder.h"
#include "client/internal/transfer/push_reply_decoder.h"
#include "client/internal/transfer/reply_checks.h"
#include "contract/grpc_bytes.h"
#include "contract/message_writer.h"
#include "contract/proto_codec.h"
#include "contract/requests.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/support/async_unary_call.h"

namespace tensorkv {
namespace {

using grpc::internal::RpcMethod;

// Limits bounds what a call may send and receive in a message.
struct Limits {
  uint64_t max_message_bytes;
  uint64_t ticket_from_bytes;
};

// Returns the bound that the caller states, but no more than the channel takes:
// else the server would push, and the reply would be refused here. Only without
// such a bound may more come by a ticket.
template <typename Request>
wire::ReplyBounds BoundsOf(const Request& request, const Limits& limits) {
  if (request.max_reply_bytes == 0) {
    return {limits.max_message_bytes, limits.ticket_from_bytes};
  }
  return {std::min(request.max_reply_bytes, limits.max_message_bytes), 0};
}

// Requests with an entry per key have a writer of their own.
template <typename Request>
absl::StatusOr<grpc::ByteBuffer> ToBytes(const Request& request,
                                         const Limits& limits,
                                         BufferPool& pool) {
  if constexpr (requires { request.entries; }) {
    std::optional<wire::ReplyBounds> bounds;
    if constexpr (requires { request.max_reply_bytes; }) {
      bounds = BoundsOf(request, limits);
    }
    const EncodedMessage message = EncodeRequest(request, bounds, &pool);
    RETURN_IF_ERROR(
        CheckMessageSize(message.size_bytes(), limits.max_message_bytes));
    return ToByteBuffer(message);
  } else {
    return Serialize(request, limits.max_message_bytes);
  }
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ParseReply(grpc::ByteBuffer* bytes) {
  typename MessagesOf<Request>::Response response;
  RETURN_IF_ERROR(Parse(bytes, &response));
  const absl::Status checked = CheckFields(response);
  if (!checked.ok()) return MalformedReply(checked);
  return CheckReply(ValueOf<ReplyTo<Request>>(std::move(response)));
}

// Decodes a reply to `request`; replies with an entry per key have readers of
// their own.
template <typename Request>
absl::StatusOr<ReplyTo<Request>> FromBytes(
    const Request& request, grpc::ByteBuffer* bytes, BufferPool& buffers,
    absl::Span<const Destination> destinations) {
  if constexpr (std::is_same_v<ReplyTo<Request>, PullReply>) {
    return DecodePullReply(bytes, request.entries.size(), buffers,
                           destinations);
  } else if constexpr (std::is_same_v<ReplyTo<Request>, PushReply>) {
    return DecodePushReply(bytes, request.entries.size());
  } else {
    return ParseReply<Request>(bytes);
  }
}

// An RPC. Awaited, it is made, and its status comes. All that it is given
// outlives it. It ends at `queue`; without one the thread that awaits it
// blocks.
class Rpc final : public QueuedWait {
 public:
  Rpc(grpc::Channel& channel, const RpcMethod& method,
      grpc::ClientContext& context, const grpc::ByteBuffer& request,
      grpc::ByteBuffer& reply, grpc::CompletionQueue* queue)
      : channel_(channel),
        method_(method),
        context_(context),
        request_(request),
        reply_(reply),
        queue_(queue) {}

  bool await_ready() {
    if (queue_ != nullptr) return false;
    status_ = grpc::internal::BlockingUnaryCall(&channel_, method_, &context_,
                                                request_, &reply_);
    return true;
  }
  bool await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    Start();
    return !end_.Arrive();
  }
  grpc::Status await_resume() { return std::move(status_); }

  void End() override {
    if (end_.Arrive()) waiter_.resume();
  }

 private:
  void Start() {
    using Helper = grpc::internal::ClientAsyncResponseReaderHelper;
    const std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>>
        reader(Helper::Create<grpc::ByteBuffer>(&channel_, queue_, method_,
                                                &context_, request_));
    reader->StartCall();
    reader->Finish(&reply_, &status_, TagOf(this));
  }

  grpc::Channel& channel_;
  const RpcMethod& method_;
  grpc::ClientContext& context_;
  const grpc::ByteBuffer& request_;
  grpc::ByteBuffer& reply_;
  grpc::CompletionQueue* const queue_;
  grpc::Status status_;
  std::coroutine_handle<> waiter_;
  Meeting end_;
};

}  // namespace

UnaryCalls::UnaryCalls(std::shared_ptr<grpc::Channel> channel,
                       ServerIncarnation* server, size_t max_message_bytes,
                       uint64_t ticket_from_bytes, RefPtr<BufferPool> buffers)
    : channel_(std::move(channel)),
      server_(*server),
      max_message_bytes_(max_message_bytes),
      ticket_from_bytes_(ticket_from_bytes),
      buffers_(std::move(buffers)) {
  for (const Method method : kUnaryMethods) {
    methods_.emplace_back(PathOf(method), RpcMethod::NORMAL_RPC, channel_);
  }
}

template <typename Request>
UnaryCalls::Expects UnaryCalls::ExpectationOf(const Request& request) {
  // Whoever asks what the server is, or a namespace, takes any for an answer,
  // and whoever joins a namespace by its uid any that has it.
  if constexpr (kAsksWhatAServerIs<Request>) {
    return Expects::kNothing;
  } else if constexpr (std::is_same_v<Request, DescribeNamespaceRequest>) {
    return Expects::kNothingYet;
  } else if constexpr (std::is_same_v<Request, JoinRequest>) {
    if (request.namespace_uid() != 0) return Expects::kAnyIncarnation;
  }
  return Expects::kTheKnownOne;
}

void UnaryCalls::Learn(Expects expects, const grpc::ClientContext& context) {
  if (expects == Expects::kTheKnownOne || expects == Expects::kNothingYet) {
    server_.LearnFrom(context);
  }
  if (expects == Expects::kAnyIncarnation) server_.ReplaceFrom(context);
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> UnaryCalls::Call(
    const Request& request, const CallDeadline& deadline,
    absl::Span<const Destination> destinations, bool blocks) {
  constexpr Method kMethod = kMethodOf<Request>;
  grpc::CompletionQueue* queue = nullptr;
  if (!blocks) {
    CO_ASSIGN_OR_RETURN(queue, WaitQueue());
  }
  CO_ASSIGN_OR_RETURN(
      const grpc::ByteBuffer message,
      ToBytes(request, {max_message_bytes_, ticket_from_bytes_}, *buffers_));
  const Expects expects = ExpectationOf(request);
  grpc::ClientContext context;
  deadline.ApplyTo(context);
  if (expects == Expects::kTheKnownOne) server_.ApplyTo(context);
  grpc::ByteBuffer reply;
  grpc::Status status;
  {
    const Canceller::Listening listening(deadline.canceller(),
                                         [&] { context.TryCancel(); });
    status = co_await Rpc(*channel_, methods_[static_cast<size_t>(kMethod)],
                          context, message, reply, queue);
  }
  CO_RETURN_IF_ERROR(deadline.StatusOf(status));
  Learn(expects, context);
  co_return FromBytes(request, &reply, *buffers_, destinations);
}

#define TENSORKV_INSTANTIATE(name, ...)                           \
  template Task<absl::StatusOr<name##Reply>> UnaryCalls::Call(    \
      const name##Request& request, const CallDeadline& deadline, \
      absl::Span<const Destination> destinations, bool blocks);
TENSORKV_UNARY_METHODS(TENSORKV_INSTANTIATE)
#undef TENSORKV_INSTANTIATE

}  // namespace tensorkv
