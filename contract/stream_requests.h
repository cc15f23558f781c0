// The streams of stream.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_STREAM_REQUESTS_H_
#define TENSORKV_CONTRACT_STREAM_REQUESTS_H_

#include <cstdint>

#include "contract/data_requests.h"

namespace tensorkv {

// Says which of the `count` streams of a call one stream is. A count of 0 on
// the wire is 1 here.
struct Stripe {
  uint32_t index = 0;
  uint32_t count = 1;
  // A number that all stripes of one attempt at a call have; 0 for a stream by
  // itself.
  uint64_t group = 0;

  friend bool operator==(const Stripe&, const Stripe&) = default;
};

// Says how the values of a pull are to come.
struct PullStreamOptions {
  Stripe stripe;
  uint64_t max_part_bytes = 0;
  // Allows the server to answer with batches of values, without a manifest.
  bool allow_batches = false;
};

// A PullStreamRequest with a Pull.
struct PullStreamRequest {
  PullRequest request;
  PullStreamOptions options;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STREAM_REQUESTS_H_
