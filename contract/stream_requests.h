// The streams of stream.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_STREAM_REQUESTS_H_
#define TENSORKV_CONTRACT_STREAM_REQUESTS_H_

#include <cstdint>

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

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STREAM_REQUESTS_H_
