// Between the bytes of a call and the values of contract/requests.h: by the
// generated code, but for messages with an entry per key, which the
// hand-written codec reads and writes. Where elements go says
// payload_decoder.h.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_SERVICE_RPC_MESSAGE_CODEC_H_
#define TENSORKV_SERVICE_RPC_MESSAGE_CODEC_H_

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "contract/requests.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "service/rpc/message_limits.h"

namespace tensorkv {

// Parses `bytes`, which it empties, into `message`. Fields that are not known
// here are left out.
// Errors: InvalidArgument (no such message) · ResourceExhausted (structure
// over the limits, see message_limits.h).
absl::Status Parse(grpc::ByteBuffer* bytes, const MessageLimits& limits,
                   google::protobuf::Message* message);

// Returns the encoded message. Errors: ResourceExhausted if it is over the
// limit.
absl::StatusOr<grpc::ByteBuffer> Serialize(
    const google::protobuf::Message& message, const MessageLimits& limits);

// Encodes the values of a Pull or PushPull. The bytes refer to the elements,
// and keep their buffers; nothing is copied. Errors: ResourceExhausted if the
// reply is over the limit.
absl::StatusOr<grpc::ByteBuffer> EncodeValues(const PullReply& reply,
                                              const MessageLimits& limits);

// Encodes the manifest of the values of a stream.
// Errors: ResourceExhausted if it is over the limit.
absl::StatusOr<grpc::ByteBuffer> EncodeManifest(const PullReply& reply,
                                                const MessageLimits& limits);

// Encodes the results of a Push.
// Errors: ResourceExhausted if the reply is over the limit.
absl::StatusOr<grpc::ByteBuffer> EncodeResults(const PushReply& reply,
                                               const MessageLimits& limits);

// Returns how many bytes a Pull reply with so many values can have of elements.
// Errors: ResourceExhausted if it leaves nothing, whatever the values.
absl::StatusOr<uint64_t> BytesForValues(size_t num_values,
                                        const MessageLimits& limits);

// Parses `bytes` into `message` and writes them again, in the form that writers
// usually give it. Errors: those of Parse.
absl::Status PutInUsualForm(grpc::ByteBuffer* bytes,
                            const MessageLimits& limits,
                            google::protobuf::Message* message);

// Reads a call with an entry per key, in whatever form `bytes` have it, as
// ReadCall does. The ranges that it gives are in `bytes`, which an unusual form
// replaces by the usual one. Errors: those of Parse and ReadCall.
template <typename Call>
absl::StatusOr<Decoded<Call>> ReadAnyForm(
    grpc::ByteBuffer* bytes, const MessageLimits& limits,
    Elements elements = Elements::kPresent) {
  grpc::ProtoBufferReader reader(bytes);
  absl::StatusOr<Decoded<Call>> decoded =
      ReadCall<Call>(&reader, bytes->Length(), limits.max_entries, elements);
  if (decoded.ok()) return decoded;
  typename MessagesOf<Call>::Request message;
  RETURN_IF_ERROR(PutInUsualForm(bytes, limits, &message));
  grpc::ProtoBufferReader usual(bytes);
  return ReadCall<Call>(&usual, bytes->Length(), limits.max_entries, elements);
}

// Encodes a reply as a `Message`.
// Errors: ResourceExhausted if the reply is over the limit.
template <typename Message, typename Reply>
absl::StatusOr<grpc::ByteBuffer> Encode(const Reply& reply,
                                        const MessageLimits& limits) {
  if constexpr (std::is_same_v<Message, Reply>) {
    return Serialize(reply, limits);
  } else {
    return Serialize(MessageOf<Message>(reply), limits);
  }
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_MESSAGE_CODEC_H_
