// The messages that answer a stream.

#ifndef TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_
#define TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/striped_call.h"

namespace tensorkv {

// How values are cut into messages, as the stream has asked.
struct ReplyForm {
  Stripe stripe;
  uint64_t max_part_bytes = 0;  // 0 is the default
};

// Makes the messages that answer a stream one by one, as the transport takes
// them: one response to what sets something; of values, if they have no ticket,
// a manifest, and the parts of one stripe. Elements of large values are sent
// from where they are, those of small ones copied when they are due. Confined
// to one thread at a time.
class ReplyMessages {
 public:
  // Parts of this size keep a connection busy and the receiver's caches warm.
  static constexpr uint64_t kDefaultPartBytes = 1 << 20;

  // A part goes on in the next values until it has so many bytes: a part of its
  // own would cost a small value more than its bytes do. So many that have been
  // copied are still in the cache of the core when they are sent.
  static constexpr uint64_t kRunBytes = 256 << 10;

  // Errors: ResourceExhausted (the manifest is over the limit).
  static absl::StatusOr<ReplyMessages> Create(StripedCall::Reply reply,
                                              const ReplyForm& form,
                                              const MessageLimits& limits);

  // Returns the next message. REQUIRES: !is_done().
  grpc::ByteBuffer Next();
  // Returns how many bytes of elements all messages together have.
  uint64_t payload_bytes() const { return payload_bytes_; }
  bool is_done() const { return !first_ && (!parts_ || parts_->is_complete()); }

 private:
  ReplyMessages() = default;

  absl::Status SendValues(const PullReply& pull, const ReplyForm& form,
                          const MessageLimits& limits);

  StripedCall::Reply reply_;
  std::optional<grpc::ByteBuffer> first_;
  // Only values have them.
  std::optional<PartCursor> parts_;
  uint64_t part_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_REPLY_MESSAGES_H_
