// The calls that travel as streams.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_BULK_CALLS_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_BULK_CALLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "client/destination.h"
#include "client/internal/calls/call_deadline.h"
#include "client/internal/transfer/channel_pool.h"
#include "client/internal/transfer/part_sender.h"
#include "client/internal/transfer/stripe_group.h"
#include "client/internal/transfer/stripe_stream.h"
#include "client/internal/transfer/stripe_threads.h"
#include "client/send_cast.h"
#include "client/transfer_options.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Makes calls whose tensors go as an InitStream, PushStream or PushPullStream,
// and brings values by a PullStream. Each call is
// striped over as many connections as its size is worth, but over no more than
// have a thread idle at present. Thread-safe; calls block until their answer or
// deadline.
//
// Errors: those of the verb · Internal (a reply that makes no sense) ·
// ResourceExhausted (metadata alone above the message limit; no memory for
// the reply).
class BulkCalls {
 public:
  // `channels` outlives it. The tensors that come, and what is cast to be sent,
  // have memory from `buffers`.
  // REQUIRES: options that CheckTransferOptions takes; max_message_bytes >
  // kPartOverheadBytes.
  BulkCalls(ChannelPool& channels, const TransferOptions& options,
            size_t max_message_bytes, RefPtr<BufferPool> buffers);

  // Values are received into `destinations` if all fit; nobody writes there
  // after the call has returned. `casts` are as CallOptions has them.
  absl::StatusOr<InitReply> Call(const InitRequest& request,
                                 const CallDeadline& deadline);
  absl::StatusOr<SetStateReply> Call(const SetStateRequest& request,
                                     const CallDeadline& deadline);
  absl::StatusOr<PushReply> Call(const PushRequest& request,
                                 const CallDeadline& deadline,
                                 absl::Span<const SendCast> casts = {});
  absl::StatusOr<PullReply> Call(
      const PushPullRequest& request, const CallDeadline& deadline,
      absl::Span<const Destination> destinations = {},
      absl::Span<const SendCast> casts = {});

  // Brings the values for which `reply` has a ticket, and takes the ticket from
  // it. REQUIRES: its tensors have memory.
  absl::Status Bring(PullReply& reply, const CallDeadline& deadline);

 private:
  // Receives the reply of one stripe.
  using Receiver =
      absl::FunctionRef<absl::Status(StripeStream& stream, const Stripe&)>;

  // UploadPlan says how a call with tensors in its request is made.
  struct UploadPlan {
    Method method;
    absl::Span<const SendCast> casts;
  };

  // Returns how many stripes a call is worth that carries so many bytes.
  uint32_t NumStripes(uint64_t bytes) const;
  // Returns the request of a stripe of a PullStream.
  absl::StatusOr<grpc::ByteBuffer> EncodePull(const Ticket& ticket,
                                              const Stripe& stripe) const;
  // Runs the call, and halves most_stripes_ if the server refuses some of its
  // streams.
  absl::Status Run(StripeGroup& call, StripeGroup::Exchange exchange);
  // Makes a call with tensors in its request; `receive` reads the reply.
  template <typename Request>
  absl::Status Upload(const Request& request, const UploadPlan& plan,
                      const CallDeadline& deadline, Receiver receive);
  // Uploads the entries that `request` describes, by parts that `encode` makes.
  template <typename Request>
  absl::Status UploadParts(const Request& request, const UploadPlan& plan,
                           PartEncoder encode, const CallDeadline& deadline,
                           Receiver receive);
  // Uploads by an InitStream.
  template <typename Request>
  absl::StatusOr<InitReply> UploadByInit(const Request& request,
                                         const CallDeadline& deadline);
  // Uploads for a reply of one message, which it returns.
  template <typename Request>
  absl::StatusOr<grpc::ByteBuffer> UploadForOne(const Request& request,
                                                const UploadPlan& plan,
                                                const CallDeadline& deadline);

  ChannelPool& channels_;
  const size_t max_message_bytes_;
  const uint64_t part_bytes_;
  const uint64_t min_stripe_bytes_;
  const RefPtr<BufferPool> buffers_;
  StripeThreads threads_;
  // Bounds the stripes of a call. Is set to half of a call's stripes each time
  // that a quota of the server refuses some of them; never rises again.
  std::atomic<uint32_t> most_stripes_{kMaxStripes};
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_BULK_CALLS_H_
