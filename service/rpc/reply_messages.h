// The messages that answer a stream.

#ifndef TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_
#define TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/striped_call.h"

namespace tensorkv {

// Makes the messages one by one, as the transport takes them: one response to
// an Init or a Push; to a pull a manifest and the parts of one stripe, whose
// elements are sent from where they are. Confined to one thread at a time.
class ReplyMessages {
 public:
  // Parts of this size keep a connection busy and the receiver's caches warm.
  static constexpr uint64_t kDefaultPartBytes = 1 << 20;

  // `max_part_bytes` 0 is the default.
  // Errors: ResourceExhausted (the first message is over the limit).
  static absl::StatusOr<ReplyMessages> Create(StripedCall::Reply reply,
                                              const Stripe& stripe,
                                              uint64_t max_part_bytes,
                                              const MessageLimits& limits);

  // The next message. REQUIRES: !is_done().
  grpc::ByteBuffer Next();
  // The payload of all messages together.
  uint64_t payload_bytes() const { return payload_bytes_; }
  bool is_done() const { return !first_ && (!parts_ || parts_->is_complete()); }

 private:
  ReplyMessages() = default;

  StripedCall::Reply reply_;
  std::optional<grpc::ByteBuffer> first_;
  // Only a pull has them.
  std::optional<PartCursor> parts_;
  uint64_t part_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_
