#include "client/internal/unary_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/status_macros.h"
#include "client/internal/message_bytes.h"
#include "client/internal/pull_reply_decoder.h"
#include "client/internal/push_reply_decoder.h"
#include "client/internal/reply_checks.h"
#include "contract/grpc_bytes.h"
#include "contract/message_writer.h"
#include "contract/proto_codec.h"
#include "contract/requests.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/client_callback.h"
#include "grpcpp/impl/codegen/client_unary_call.h"

namespace tensorkv {
namespace {

using grpc::internal::RpcMethod;

// Returns the bound that the caller states, but no more than the channel takes:
// else the server would push, and the reply would be refused here.
template <typename Request>
uint64_t MaxReplyBytes(const Request& request, uint64_t max_message_bytes) {
  return request.max_reply_bytes == 0
             ? max_message_bytes
             : std::min(request.max_reply_bytes, max_message_bytes);
}

// Requests with an entry per key have a writer of their own.
template <typename Request>
absl::StatusOr<grpc::ByteBuffer> ToBytes(const Request& request,
                                         size_t max_message_bytes,
                                         BufferPool& pool) {
  if constexpr (requires { request.entries; }) {
    std::optional<uint64_t> max_reply_bytes;
    if constexpr (requires { request.max_reply_bytes; }) {
      max_reply_bytes = MaxReplyBytes(request, max_message_bytes);
    }
    const EncodedMessage message =
        EncodeRequest(request, max_reply_bytes, &pool);
    RETURN_IF_ERROR(CheckMessageSize(message.size_bytes(), max_message_bytes));
    return ToByteBuffer(message);
  } else {
    return Serialize(request, max_message_bytes);
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

}  // namespace

UnaryCalls::UnaryCalls(std::shared_ptr<grpc::Channel> channel,
                       ServerIncarnation* server, size_t max_message_bytes,
                       RefPtr<BufferPool> buffers)
    : channel_(std::move(channel)),
      server_(*server),
      max_message_bytes_(max_message_bytes),
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

absl::StatusOr<grpc::ByteBuffer> UnaryCalls::Send(
    Method method, Expects expects, const grpc::ByteBuffer& request,
    const CallDeadline& deadline) {
  grpc::ClientContext context;
  SetUpContext(expects, deadline, context);
  const Canceller::Listening listening(deadline.canceller(),
                                       [&] { context.TryCancel(); });
  grpc::ByteBuffer reply;
  const grpc::Status status = grpc::internal::BlockingUnaryCall(
      channel_.get(), methods_[static_cast<size_t>(method)], &context, request,
      &reply);
  RETURN_IF_ERROR(OutcomeOf(status, expects, deadline, context));
  return reply;
}

void UnaryCalls::SetUpContext(Expects expects, const CallDeadline& deadline,
                              grpc::ClientContext& context) const {
  deadline.ApplyTo(context);
  if (expects == Expects::kTheKnownOne) server_.ApplyTo(context);
}

absl::Status UnaryCalls::OutcomeOf(const grpc::Status& status, Expects expects,
                                   const CallDeadline& deadline,
                                   const grpc::ClientContext& context) {
  RETURN_IF_ERROR(deadline.StatusOf(status));
  if (expects == Expects::kTheKnownOne || expects == Expects::kNothingYet) {
    server_.LearnFrom(context);
  }
  if (expects == Expects::kAnyIncarnation) server_.ReplaceFrom(context);
  return absl::OkStatus();
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> UnaryCalls::Call(
    const Request& request, const CallDeadline& deadline,
    absl::Span<const Destination> destinations) {
  ASSIGN_OR_RETURN(const grpc::ByteBuffer message,
                   ToBytes(request, max_message_bytes_, *buffers_));
  ASSIGN_OR_RETURN(
      grpc::ByteBuffer reply,
      Send(kMethodOf<Request>, ExpectationOf(request), message, deadline));
  return FromBytes(request, &reply, *buffers_, destinations);
}

namespace {

// StartedCall holds what gRPC uses of a call until that has ended.
struct StartedCall {
  explicit StartedCall(const CallDeadline& deadline)
      : deadline(deadline),
        listening(deadline.canceller(), [this] { context.TryCancel(); }) {}

  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer reply;
  const CallDeadline deadline;
  const Canceller::Listening listening;
};

thread_local bool is_in_done_callback = false;

}  // namespace

bool UnaryCalls::IsInDoneCallback() { return is_in_done_callback; }

template <typename Request>
void UnaryCalls::Start(const Request& request, const CallDeadline& deadline,
                       absl::Span<const Destination> destinations,
                       Done<Request> done) {
  constexpr Method kMethod = kMethodOf<Request>;
  absl::StatusOr<grpc::ByteBuffer> message =
      ToBytes(request, max_message_bytes_, *buffers_);
  if (!message.ok()) return std::move(done)(message.status());
  const Expects expects = ExpectationOf(request);
  auto* const call = new StartedCall(deadline);
  call->request = *std::move(message);
  SetUpContext(expects, deadline, call->context);
  auto* const told = new Done<Request>(std::move(done));
  // gRPC makes copies of what it calls, which must not own anything: a copy may
  // outlive the call a little.
  grpc::internal::CallbackUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), methods_[static_cast<size_t>(kMethod)], &call->context,
      &call->request, &call->reply,
      [this, &request, expects, destinations, call,
       told](const grpc::Status& status) {
        std::unique_ptr<StartedCall> ended(call);
        std::unique_ptr<Done<Request>> done(told);
        const absl::Status outcome =
            OutcomeOf(status, expects, ended->deadline, ended->context);
        absl::StatusOr<ReplyTo<Request>> reply =
            outcome.ok()
                ? FromBytes(request, &ended->reply, *buffers_, destinations)
                : outcome;
        ended = nullptr;
        is_in_done_callback = true;
        std::move (*done)(std::move(reply));
        done = nullptr;
        is_in_done_callback = false;
      });
}

#define TENSORKV_INSTANTIATE(name, ...)                           \
  template absl::StatusOr<name##Reply> UnaryCalls::Call(          \
      const name##Request& request, const CallDeadline& deadline, \
      absl::Span<const Destination> destinations);                \
  template void UnaryCalls::Start(                                \
      const name##Request& request, const CallDeadline& deadline, \
      absl::Span<const Destination> destinations, Done<name##Request> done);
TENSORKV_UNARY_METHODS(TENSORKV_INSTANTIATE)
#undef TENSORKV_INSTANTIATE

}  // namespace tensorkv
