#include "service/rpc/reply_messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "contract/grpc_bytes.h"
#include "contract/message_writer.h"
#include "contract/stream_codec.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

// Smaller parts would cost more than they carry.
constexpr uint64_t kMinPartBytes = 1024;

// Returns whether values are so small that parts would cost more than they
// carry, and each fits into a batch.
bool GoInBatches(const std::vector<Value>& values, uint64_t total_bytes,
                 uint64_t max_bytes) {
  if (total_bytes >= values.size() * ReplyMessages::kMinMeanPartBytes) {
    return false;
  }
  return std::all_of(values.begin(), values.end(), [&](const Value& value) {
    return value.tensor.size_bytes() + kMaxValueOverheadBytes <= max_bytes;
  });
}

}  // namespace

absl::StatusOr<ReplyMessages> ReplyMessages::Create(
    StripedCall::Reply reply, const ReplyForm& form,
    const MessageLimits& limits) {
  ReplyMessages messages;
  if (const auto* init = std::get_if<InitReply>(reply.get())) {
    ASSIGN_OR_RETURN(messages.first_, Encode<v1::InitResponse>(*init, limits));
  } else if (const auto* push = std::get_if<PushReply>(reply.get())) {
    ASSIGN_OR_RETURN(messages.first_, Encode<v1::PushResponse>(*push, limits));
  } else {
    RETURN_IF_ERROR(
        messages.AnswerPull(std::get<PullReply>(*reply), form, limits));
  }
  messages.reply_ = std::move(reply);
  return messages;
}

absl::Status ReplyMessages::AnswerPull(const PullReply& pull,
                                       const ReplyForm& form,
                                       const MessageLimits& limits) {
  std::vector<uint64_t> sizes = TensorSizes(pull.values);
  ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes));
  const uint64_t wish =
      form.max_part_bytes == 0 ? kDefaultPartBytes : form.max_part_bytes;
  part_bytes_ = std::min(std::max(wish, kMinPartBytes),
                         limits.max_message_bytes - kPartOverheadBytes);
  if (form.allow_batches && form.stripe.count == 1 &&
      GoInBatches(pull.values, total, part_bytes_)) {
    payload_bytes_ = total;
    batched_ = pull.values;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(first_, EncodeManifest(pull, limits));
  ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, form.stripe));
  parts_.emplace(std::move(sizes), range);
  payload_bytes_ = range.size_bytes();
  return absl::OkStatus();
}

grpc::ByteBuffer ReplyMessages::NextBatch() {
  size_t num_values = 0;
  uint64_t element_bytes = 0;
  uint64_t most_bytes = 0;
  for (const Value& value : batched_) {
    const uint64_t bytes = value.tensor.size_bytes();
    element_bytes += bytes;
    most_bytes += bytes + kMaxValueOverheadBytes;
    const bool is_full =
        element_bytes > kBatchBytes || most_bytes > part_bytes_;
    if (is_full && num_values > 0) break;
    ++num_values;
  }
  const auto batch = batched_.first(num_values);
  batched_.remove_prefix(num_values);
  return ToByteBuffer(
      EncodePullBatch(batch, std::get<PullReply>(*reply_).snapshot_number));
}

grpc::ByteBuffer ReplyMessages::Next() {
  if (!batched_.empty()) return NextBatch();
  if (first_) return *std::exchange(first_, std::nullopt);
  const PartRange part = *parts_->Next(part_bytes_);
  const PullReply& pull = std::get<PullReply>(*reply_);
  return ToByteBuffer(EncodePart(part, pull.values[part.entry].tensor));
}

}  // namespace tensorkv
