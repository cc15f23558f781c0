// The messages that answer a stream.

#ifndef TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_
#define TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/striped_call.h"

namespace tensorkv {

// How the answer to a pull is cut into messages, as the stream has asked.
struct ReplyForm {
  Stripe stripe;
  uint64_t max_part_bytes = 0;  // 0 is the default
  // StreamRequest::allow_batches.
  bool allow_batches = false;
};

// Makes the messages that answer a stream one by one, as the transport takes
// them: one response to what sets something; to a pull a manifest and the parts
// of one stripe, whose elements are sent from where they are, or batches of
// small values, each copied when it is due. Confined to one thread at a time.
class ReplyMessages {
 public:
  // Parts of this size keep a connection busy and the receiver's caches warm.
  static constexpr uint64_t kDefaultPartBytes = 1 << 20;

  // Batches of so many bytes of elements are still in the cache of the core
  // that has copied them when they are sent.
  static constexpr uint64_t kBatchBytes = 256 << 10;
  // Values go in batches if they have fewer bytes than this on average, since a
  // part of its own costs about as much as sending so many bytes more.
  static constexpr uint64_t kMinMeanPartBytes = 64 << 10;

  // Errors: ResourceExhausted (the manifest is over the limit).
  static absl::StatusOr<ReplyMessages> Create(StripedCall::Reply reply,
                                              const ReplyForm& form,
                                              const MessageLimits& limits);

  // Returns the next message. REQUIRES: !is_done().
  grpc::ByteBuffer Next();
  // Returns how many bytes of elements all messages together have.
  uint64_t payload_bytes() const { return payload_bytes_; }
  bool is_done() const {
    return !first_ && (!parts_ || parts_->is_complete()) && batched_.empty();
  }

 private:
  ReplyMessages() = default;

  absl::Status AnswerPull(const PullReply& pull, const ReplyForm& form,
                          const MessageLimits& limits);
  grpc::ByteBuffer NextBatch();

  StripedCall::Reply reply_;
  std::optional<grpc::ByteBuffer> first_;
  // Only a pull has them.
  std::optional<PartCursor> parts_;
  // The values of a pull in batches that are still to be sent.
  absl::Span<const Value> batched_;
  uint64_t part_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_
