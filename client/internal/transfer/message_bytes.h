// Messages of the generated code as bytes for calls that carry bytes.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_MESSAGE_BYTES_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_MESSAGE_BYTES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace tensorkv {

// Checks that a message of `message_bytes` may be sent. Errors:
// ResourceExhausted.
absl::Status CheckMessageSize(size_t message_bytes, size_t max_message_bytes);

// Returns the bytes of `message`. Errors: ResourceExhausted (above
// max_message_bytes) · Internal (a string that is not UTF-8).
absl::StatusOr<grpc::ByteBuffer> Serialize(
    const google::protobuf::Message& message, size_t max_message_bytes);

// Parses `bytes`, which it empties.
// Errors: Internal, since the server sent them.
absl::Status Parse(grpc::ByteBuffer* bytes, google::protobuf::Message* message);

// Returns the error for a reply that makes no sense, which is the server's
// fault and not the request's: Internal, with why `status` refuses it.
absl::Status MalformedReply(const absl::Status& status);

// Returns what FromProto has made of a reply; turns an error into that of
// MalformedReply.
template <typename Reply>
absl::StatusOr<Reply> CheckReply(absl::StatusOr<Reply> decoded) {
  if (decoded.ok()) return decoded;
  return MalformedReply(decoded.status());
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_MESSAGE_BYTES_H_
