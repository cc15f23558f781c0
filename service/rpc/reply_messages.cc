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
        messages.SendValues(std::get<PullReply>(*reply), form, limits));
  }
  messages.reply_ = std::move(reply);
  return messages;
}

absl::Status ReplyMessages::SendValues(const PullReply& pull,
                                       const ReplyForm& form,
                                       const MessageLimits& limits) {
  std::vector<uint64_t> sizes = TensorSizes(pull.values);
  ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes));
  const uint64_t wish =
      form.max_part_bytes == 0 ? kDefaultPartBytes : form.max_part_bytes;
  part_bytes_ = std::min(std::max(wish, kMinPartBytes),
                         limits.max_message_bytes - kPartOverheadBytes);
  if (!pull.ticket) {
    ASSIGN_OR_RETURN(first_, EncodeManifest(pull, limits));
  }
  ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, form.stripe));
  parts_.emplace(std::move(sizes), range);
  payload_bytes_ = range.size_bytes();
  return absl::OkStatus();
}

grpc::ByteBuffer ReplyMessages::Next() {
  if (first_) return *std::exchange(first_, std::nullopt);
  // A stripe without bytes has one part, which is empty.
  std::vector<PartRange> run = {
      parts_->Next(part_bytes_).value_or(PartRange())};
  const uint64_t most_bytes = std::min(part_bytes_, kRunBytes);
  uint64_t bytes = run.front().size_bytes;
  while (bytes < most_bytes && !parts_->is_complete()) {
    run.push_back(*parts_->Next(most_bytes - bytes));
    bytes += run.back().size_bytes;
  }
  return ToByteBuffer(EncodeRun(run, std::get<PullReply>(*reply_).values));
}

}  // namespace tensorkv
