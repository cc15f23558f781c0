// The calls that carry tensors, each in the way that suits its size.

#ifndef TENSORKV_CLIENT_INTERNAL_DATA_CALLS_H_
#define TENSORKV_CLIENT_INTERNAL_DATA_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "client/connection.h"
#include "client/internal/bulk_calls.h"
#include "client/internal/call_deadline.h"
#include "client/internal/channel_pool.h"
#include "client/internal/large_keys.h"
#include "client/internal/stream_policy.h"
#include "client/internal/unary_calls.h"
#include "client/transfer_options.h"
#include "contract/requests.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Makes Init, Push, Pull and PushPull as one message or as streams, as
// TransferOptions says. Thread-safe.
//
// How much a pull brings is not known beforehand. It goes as a stream if the
// keys were large when they last went over this connection, or if the server
// refuses to put the reply into one message.
//
// Errors: those of UnaryCalls and BulkCalls · DeadlineExceeded.
class DataCalls {
 public:
  // `channels` outlives it. REQUIRES: as for BulkCalls.
  DataCalls(ChannelPool& channels, const TransferOptions& options,
            size_t max_message_bytes);

  absl::StatusOr<InitReply> Init(const InitRequest& request,
                                 const CallOptions& options);
  absl::StatusOr<PushReply> Push(const PushRequest& request,
                                 const CallOptions& options);
  absl::StatusOr<PullReply> Pull(const PullRequest& request,
                                 const CallOptions& options);
  absl::StatusOr<PullReply> PushPull(const PushRequest& request,
                                     const CallOptions& options);

 private:
  absl::StatusOr<PullReply> PullAsOneMessage(const PullRequest& request,
                                             const CallDeadline& deadline);
  absl::StatusOr<PullReply> PushPullAsOneMessage(const PushRequest& request,
                                                 const CallDeadline& deadline);

  const size_t max_message_bytes_;
  const StreamPolicy policy_;
  const RefPtr<BufferPool> buffers_;
  UnaryCalls unary_;
  BulkCalls bulk_;
  LargeKeys large_keys_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_DATA_CALLS_H_
