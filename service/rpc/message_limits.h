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
  // An encoded message is no longer, either way. It is below 2 GiB, which is
  // Protocol Buffers' own bound.
  uint64_t max_message_bytes = 64 << 20;
  // Entries or keys in one request.
  uint32_t max_entries = 100'000;
};

// Checks, before any of it is built, what an encoded message of `type` would
// cost in memory beyond its own bytes. A field of two bytes can become an
// object of sixty, so a message within the byte limit could still take
// gigabytes. A call of max_entries ordinary entries is always within bounds.
//
// Errors: InvalidArgument (no message of `type`) · ResourceExhausted.
absl::Status CheckStructure(const grpc::ByteBuffer& bytes,
                            const google::protobuf::Descriptor& type,
                            const MessageLimits& limits);

// Returns whether a message has more than `max_fields` fields, or all of it is
// a message that has. So much work is known ahead of reading any of them.
bool HasMoreFieldsThan(size_t max_fields, const grpc::ByteBuffer& bytes);

// Returns whether a message sets that field, which is a number or a bool, to
// another value than 0, so that it may be known ahead of reading all of it. Of
// bytes that are no message, returns something or other.
bool HasFieldSet(int field, const grpc::ByteBuffer& bytes);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_MESSAGE_LIMITS_H_
