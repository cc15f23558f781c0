#include "client/internal/transfer/bulk_calls.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/internal/retry/random_bytes.h"
#include "client/internal/transfer/cast_entries.h"
#include "client/internal/transfer/message_bytes.h"
#include "client/internal/transfer/pulled_values.h"
#include "client/internal/transfer/push_reply_decoder.h"
#include "contract/grpc_bytes.h"
#include "contract/message_writer.h"
#include "contract/proto_codec.h"
#include "contract/retry_delay.h"
#include "contract/stream_codec.h"
#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {
namespace {

// Bounds parts that are cast, so that they are sent from the second-level
// cache.
constexpr uint64_t kMaxCastPartBytes = 256 << 10;

// Names an attempt as no other is named; never 0.
uint64_t RandomGroup() {
  const std::string bytes = RandomBytes(sizeof(uint64_t));
  uint64_t group = 0;
  std::memcpy(&group, bytes.data(), sizeof(group));
  return std::max<uint64_t>(group, 1);
}

// Returns what `encode` makes of each stripe.
template <typename Encode>
absl::StatusOr<std::vector<grpc::ByteBuffer>> EncodeForEachStripe(
    uint32_t num_stripes, size_t max_message_bytes, Encode encode) {
  std::vector<grpc::ByteBuffer> encoded(num_stripes);
  const uint64_t group = num_stripes > 1 ? RandomGroup() : 0;
  for (uint32_t i = 0; i < num_stripes; ++i) {
    const EncodedMessage message =
        encode({.index = i, .count = num_stripes, .group = group});
    RETURN_IF_ERROR(CheckMessageSize(message.size_bytes(), max_message_bytes));
    encoded[i] = ToByteBuffer(message);
  }
  return encoded;
}

// Receives the only message of a reply.
absl::Status ReceiveOnly(StripeStream& stream, grpc::ByteBuffer* message) {
  if (!stream.Read(message)) {
    return absl::InternalError("the server ended the stream without a reply");
  }
  grpc::ByteBuffer another;
  if (!stream.Read(&another)) return absl::OkStatus();
  return MalformedReply(absl::InternalError("expected one message, got more"));
}

}  // namespace

BulkCalls::BulkCalls(ChannelPool& channels, const TransferOptions& options,
                     size_t max_message_bytes, RefPtr<BufferPool> buffers)
    : channels_(channels),
      max_message_bytes_(max_message_bytes),
      part_bytes_(std::min<uint64_t>(options.part_bytes,
                                     max_message_bytes - kPartOverheadBytes)),
      min_stripe_bytes_(options.min_stripe_bytes),
      buffers_(std::move(buffers)),
      // A call's own thread carries its first stripe.
      threads_(channels.num_bulk() - 1) {}

uint32_t BulkCalls::NumStripes(uint64_t bytes) const {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bytes / min_stripe_bytes_, 1, most_stripes_.load()));
}

absl::Status BulkCalls::Run(StripeGroup& call, StripeGroup::Exchange exchange) {
  const absl::Status status = call.Run(exchange);
  // The other side would take it later, or with fewer streams.
  if (absl::IsResourceExhausted(status) && RetryDelayOf(status) &&
      call.num_stripes() > 1) {
    most_stripes_ = call.num_stripes() / 2;
  }
  return status;
}

template <typename Request>
absl::Status BulkCalls::Upload(const Request& request, const UploadPlan& plan,
                               const CallDeadline& deadline, Receiver receive) {
  const auto encode =
      [&](const PartRange& part) -> absl::StatusOr<EncodedMessage> {
    const auto& entry = request.entries[part.entry];
    if constexpr (std::is_base_of_v<PushRequest, Request>) {
      const SendCast cast = CastOf(plan.casts, part.entry);
      if (cast.dtype != DType::kUnknown) {
        return CastPart(part, entry, cast, *buffers_);
      }
    }
    return EncodePart(part, entry.tensor);
  };
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (!plan.casts.empty()) {
      Request sent = request;
      RETURN_IF_ERROR(DescribeCasts(plan.casts, sent.entries));
      return UploadParts(sent, plan, encode, deadline, receive);
    }
  }
  return UploadParts(request, plan, encode, deadline, receive);
}

template <typename Request>
absl::Status BulkCalls::UploadParts(const Request& request,
                                    const UploadPlan& plan, PartEncoder encode,
                                    const CallDeadline& deadline,
                                    Receiver receive) {
  const auto limit = [&](size_t entry) {
    return CastOf(plan.casts, entry).dtype == DType::kUnknown
               ? part_bytes_
               : std::min(part_bytes_, kMaxCastPartBytes);
  };
  const std::vector<uint64_t> sizes = TensorSizes(request.entries);
  ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes));
  StripeGroup call(channels_, threads_, PathOf(plan.method), NumStripes(total),
                   deadline);
  ASSIGN_OR_RETURN(const std::vector<grpc::ByteBuffer> manifests,
                   EncodeForEachStripe(call.num_stripes(), max_message_bytes_,
                                       [&](const Stripe& stripe) {
                                         return EncodeManifest(request, stripe);
                                       }));
  const auto exchange = [&](StripeStream& stream,
                            const Stripe& stripe) -> absl::Status {
    ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, stripe));
    RETURN_IF_ERROR(SendParts(stream, manifests[stripe.index],
                              PartCursor(sizes, range), limit, encode));
    return receive(stream, stripe);
  };
  return Run(call, exchange);
}

template <typename Request>
absl::StatusOr<grpc::ByteBuffer> BulkCalls::UploadForOne(
    const Request& request, const UploadPlan& plan,
    const CallDeadline& deadline) {
  grpc::ByteBuffer reply;
  // Every stripe gets the same.
  const auto receive = [&](StripeStream& stream, const Stripe& stripe) {
    grpc::ByteBuffer other;
    return ReceiveOnly(stream, stripe.index == 0 ? &reply : &other);
  };
  RETURN_IF_ERROR(Upload(request, plan, deadline, receive));
  return reply;
}

template <typename Request>
absl::StatusOr<InitReply> BulkCalls::UploadByInit(
    const Request& request, const CallDeadline& deadline) {
  ASSIGN_OR_RETURN(grpc::ByteBuffer reply,
                   UploadForOne(request, {Method::kInitStream, {}}, deadline));
  v1::InitResponse response;
  RETURN_IF_ERROR(Parse(&reply, &response));
  return FromProto(response);
}

absl::StatusOr<InitReply> BulkCalls::Call(const InitRequest& request,
                                          const CallDeadline& deadline) {
  return UploadByInit(request, deadline);
}

absl::StatusOr<SetStateReply> BulkCalls::Call(const SetStateRequest& request,
                                              const CallDeadline& deadline) {
  return UploadByInit(request, deadline);
}

absl::StatusOr<PushReply> BulkCalls::Call(const PushRequest& request,
                                          const CallDeadline& deadline,
                                          absl::Span<const SendCast> casts) {
  ASSIGN_OR_RETURN(
      grpc::ByteBuffer reply,
      UploadForOne(request, {Method::kPushStream, casts}, deadline));
  return DecodePushReply(&reply, request.entries.size());
}

absl::StatusOr<grpc::ByteBuffer> BulkCalls::EncodePull(
    const Ticket& ticket, const Stripe& stripe) const {
  v1::PullStreamRequest request;
  request.mutable_stripe()->set_index(stripe.index);
  request.mutable_stripe()->set_count(stripe.count);
  request.set_max_part_bytes(part_bytes_);
  request.set_ticket(ticket.id);
  return Serialize(request, max_message_bytes_);
}

absl::Status BulkCalls::Bring(PullReply& reply, const CallDeadline& deadline) {
  const Ticket ticket = *std::exchange(reply.ticket, std::nullopt);
  StripeGroup call(channels_, threads_, PathOf(Method::kPullStream),
                   NumStripes(ticket.size_bytes), deadline);
  const ValueWriter writer(absl::MakeSpan(reply.values));
  return Run(call,
             [&](StripeStream& stream, const Stripe& stripe) -> absl::Status {
               ASSIGN_OR_RETURN(const grpc::ByteBuffer request,
                                EncodePull(ticket, stripe));
               // An error shows at the next read.
               stream.Write(request, /*is_last=*/true);
               return writer.Receive(stream, stripe);
             });
}

absl::StatusOr<PullReply> BulkCalls::Call(
    const PushPullRequest& request, const CallDeadline& deadline,
    absl::Span<const Destination> destinations,
    absl::Span<const SendCast> casts) {
  PulledValues values(request.entries.size(), *buffers_, destinations);
  const auto receive = [&](StripeStream& stream, const Stripe& stripe) {
    return values.Receive(stream, stripe);
  };
  RETURN_IF_ERROR(
      Upload(request, {Method::kPushPullStream, casts}, deadline, receive));
  return values.Release();
}

}  // namespace tensorkv
