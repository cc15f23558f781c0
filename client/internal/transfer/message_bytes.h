// Messages of the generated code as bytes for calls that carry bytes.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_MESSAGE_BYTES_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_MESSAGE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "contract/payload_reader.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"

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

// Turns the error of a reply that was decoded into that of MalformedReply.
template <typename Reply>
absl::StatusOr<Reply> CheckReply(absl::StatusOr<Reply> decoded) {
  if (decoded.ok()) return decoded;
  return MalformedReply(decoded.status());
}

// Reads a reply with an entry per key that the generated code has parsed, and
// sets its bytes. Errors: Internal, since the server sent them.
template <typename Reply>
absl::StatusOr<Decoded<Reply>> ReadMessage(google::protobuf::Message& message,
                                           Elements elements,
                                           grpc::ByteBuffer* bytes) {
  // The serializer would write unknown fields again.
  message.DiscardUnknownFields();
  ASSIGN_OR_RETURN(*bytes,
                   Serialize(message, std::numeric_limits<size_t>::max()));
  grpc::ProtoBufferReader reader(bytes);
  return CheckReply(ReadCall<Reply>(&reader, bytes->Length(),
                                    std::numeric_limits<uint32_t>::max(),
                                    elements));
}

// Reads a reply with an entry per key, a `Message` in whatever form `bytes`
// have it, as ReadCall does; one in the usual form has at most `max_entries`
// entries. The ranges that it gives are in `bytes`, which an unusual form
// replaces by the usual one. Errors: Internal, since the server sent them.
template <typename Message, typename Reply>
absl::StatusOr<Decoded<Reply>> ReadAnyForm(grpc::ByteBuffer* bytes,
                                           uint32_t max_entries) {
  grpc::ProtoBufferReader reader(bytes);
  absl::StatusOr<Decoded<Reply>> decoded =
      ReadCall<Reply>(&reader, bytes->Length(), max_entries);
  if (decoded.ok()) return decoded;
  Message message;
  RETURN_IF_ERROR(Parse(bytes, &message));
  return ReadMessage<Reply>(message, Elements::kPresent, bytes);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_MESSAGE_BYTES_H_
