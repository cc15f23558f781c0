// Decides which payloads go as streams.

#ifndef TENSORKV_CLIENT_INTERNAL_STREAM_POLICY_H_
#define TENSORKV_CLIENT_INTERNAL_STREAM_POLICY_H_

#include <cstdint>

#include "client/transfer_options.h"
#include "contract/requests.h"

namespace tensorkv {

// Decides by size, as TransferOptions says. Immutable, thread-safe.
class StreamPolicy {
 public:
  StreamPolicy(const TransferOptions& options, uint64_t max_message_bytes)
      : max_message_bytes_(max_message_bytes),
        threshold_bytes_(options.stream_threshold_bytes) {}

  // Returns whether the elements of so many tensors do.
  bool Streams(uint64_t payload_bytes, uint64_t num_tensors) const;

  // Returns whether the values of a pull that is no stream go in batches all
  // the same: they are small, and many enough for the client to copy some while
  // the server prepares others.
  bool StreamsInBatches(uint64_t payload_bytes, uint64_t num_tensors) const;

  // Returns whether the request goes as a stream: for its elements, or because
  // it is too long for one message together with its keys.
  bool Streams(const InitRequest& request) const;
  bool Streams(const PushRequest& request) const;

 private:
  template <typename Request>
  bool StreamsWhole(const Request& request) const;

  const uint64_t max_message_bytes_;
  const uint64_t threshold_bytes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_STREAM_POLICY_H_
