// Bounds what one call may ask for.

#ifndef TENSORKV_SERVICE_RPC_MESSAGE_LIMITS_H_
#define TENSORKV_SERVICE_RPC_MESSAGE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace tensorkv {

struct MessageLimits {
  // Bound on the bytes of an encoded message, either way. It is below 2 GiB,
  // which is Protocol Buffers' own bound.
  uint64_t max_message_bytes = 64 << 20;
  // Bound on the entries or keys in one request.
  uint32_t max_entries = 100'000;
};

// Checks, before anything of an encoded message of `type` is built, that what
// it would cost in memory beyond its own bytes is within bounds. A field of two
// bytes can become an object of sixty, so a message within the byte limit could
// still take gigabytes. A call of max_entries ordinary entries is always within
// bounds.
//
// Errors: InvalidArgument (no message of `type`) · ResourceExhausted.
absl::Status CheckStructure(const grpc::ByteBuffer& bytes,
                            const google::protobuf::Descriptor& type,
                            const MessageLimits& limits);

// Returns whether an encoded message has more than `max_fields` fields at its
// top level and, if it has nothing but numbers before a message that is its
// end, in that one. Skips what is in the fields, so that the work of decoding
// is known ahead at little cost.
bool HasMoreFieldsThan(size_t max_fields, const grpc::ByteBuffer& bytes);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_MESSAGE_LIMITS_H_
