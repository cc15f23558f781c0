#include "service/rpc/reply_messages.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "contract/grpc_bytes.h"
#include "contract/proto_codec.h"
#include "contract/stream_codec.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

// Smaller parts would cost more than they carry.
constexpr uint64_t kMinPartBytes = 1024;

absl::StatusOr<grpc::ByteBuffer> Manifest(const PullReply& reply,
                                          const MessageLimits& limits) {
  v1::PullChunk chunk;
  ToProto(reply, chunk.mutable_manifest());
  return Serialize(chunk, limits);
}

absl::StatusOr<grpc::ByteBuffer> FirstMessage(const StreamedReply& reply,
                                              const MessageLimits& limits) {
  if (const auto* init = std::get_if<InitReply>(&reply)) {
    return Encode<v1::InitResponse>(*init, limits);
  }
  if (const auto* push = std::get_if<PushReply>(&reply)) {
    return Encode<v1::PushResponse>(*push, limits);
  }
  return Manifest(std::get<PullReply>(reply), limits);
}

}  // namespace

absl::StatusOr<ReplyMessages> ReplyMessages::Create(
    StripedCall::Reply reply, const Stripe& stripe, uint64_t max_part_bytes,
    const MessageLimits& limits) {
  ReplyMessages messages;
  ASSIGN_OR_RETURN(messages.first_, FirstMessage(*reply, limits));
  if (const auto* pull = std::get_if<PullReply>(reply.get())) {
    std::vector<uint64_t> sizes = TensorSizes(pull->values);
    ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes));
    ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, stripe));
    messages.parts_.emplace(std::move(sizes), range);
    messages.payload_bytes_ = range.size_bytes();
    const uint64_t wish =
        max_part_bytes == 0 ? kDefaultPartBytes : max_part_bytes;
    messages.part_bytes_ =
        std::min(std::max(wish, kMinPartBytes),
                 limits.max_message_bytes - kPartOverheadBytes);
  }
  messages.reply_ = std::move(reply);
  return messages;
}

grpc::ByteBuffer ReplyMessages::Next() {
  if (first_) return *std::exchange(first_, std::nullopt);
  const PartRange part = *parts_->Next(part_bytes_);
  const PullReply& pull = std::get<PullReply>(*reply_);
  return ToByteBuffer(EncodePart(part, pull.values[part.entry].tensor));
}

}  // namespace tensorkv
