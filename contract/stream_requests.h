// The streams of stream.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_STREAM_REQUESTS_H_
#define TENSORKV_CONTRACT_STREAM_REQUESTS_H_

#include <cstdint>
#include <variant>

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

// The tensors of a manifest have no data. A PullManifest is a PullReply whose
// tensors have none. A PushRequest or a PullRequest whose entries have rows is
// that of a PushRows or a PullRows.
struct InitManifest {
  std::variant<InitRequest, SetStateRequest> request;
  Stripe stripe;
};

struct PushManifest {
  std::variant<PushRequest, PushPullRequest> request;
  Stripe stripe;
};

struct PullStreamRequest {
  std::variant<PullRequest, GetStateRequest> request;
  Stripe stripe;
  uint64_t max_part_bytes = 0;
  // Allows the server to answer with batches of values, without a manifest.
  bool allow_batches = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STREAM_REQUESTS_H_
