// Decides which calls go as streams.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_STREAM_POLICY_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_STREAM_POLICY_H_

#include <cstdint>

#include "client/transfer_options.h"
#include "contract/requests.h"

namespace tensorkv {

// Decides by size, as TransferOptions says, whether the tensors of a request go
// as a stream or in one message. Immutable, thread-safe.
class StreamPolicy {
 public:
  StreamPolicy(const TransferOptions& options, uint64_t max_message_bytes)
      : max_message_bytes_(max_message_bytes),
        threshold_bytes_(options.stream_threshold_bytes) {}

  // Return whether the request goes as a stream: for the size of its tensors,
  // or because it is too long for one message together with its keys.
  bool ShouldStream(const InitRequest& request) const;
  bool ShouldStream(const SetStateRequest& request) const;
  bool ShouldStream(const PushRequest& request) const;

 private:
  template <typename Request>
  bool ShouldStreamRequest(const Request& request) const;

  const uint64_t max_message_bytes_;
  const uint64_t threshold_bytes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_STREAM_POLICY_H_
