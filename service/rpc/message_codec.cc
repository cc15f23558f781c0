#include "service/rpc/message_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/grpc_bytes.h"
#include "contract/message_writer.h"
#include "contract/reason.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace tensorkv {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

absl::Status CheckEntries(const Message& message, const MessageLimits& limits);

absl::Status CheckField(const Message& message, const FieldDescriptor& field,
                        const MessageLimits& limits) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    // The push inside a PushPull.
    if (field.message_type() == nullptr) return absl::OkStatus();
    return CheckEntries(reflection.GetMessage(message, &field), limits);
  }
  const uint64_t size = reflection.FieldSize(message, &field);
  if (size <= limits.max_entries) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        message.GetDescriptor()->name(), ": expected at most ",
                        limits.max_entries, " ", field.name(), ", got ", size)),
                    Reason::kLimitReached, {{"limit", limits.max_entries}});
}

absl::Status CheckEntries(const Message& message, const MessageLimits& limits) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    RETURN_IF_ERROR(CheckField(message, *type.field(i), limits));
  }
  return absl::OkStatus();
}

absl::Status OverTheLimit(uint64_t bytes, const MessageLimits& limits) {
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the reply takes ", bytes, " bytes, the limit of a message is ",
          limits.max_message_bytes, ": ask for less in one call")),
      Reason::kReplyTooLarge,
      {{"needed", bytes}, {"available", limits.max_message_bytes}});
}

absl::StatusOr<grpc::ByteBuffer> Limited(const EncodedMessage& message,
                                         const MessageLimits& limits) {
  if (message.size_bytes() > limits.max_message_bytes) {
    return OverTheLimit(message.size_bytes(), limits);
  }
  return ToByteBuffer(message);
}

}  // namespace

absl::Status Parse(grpc::ByteBuffer* bytes, const MessageLimits& limits,
                   google::protobuf::Message* message) {
  RETURN_IF_ERROR(CheckStructure(*bytes, *message->GetDescriptor(), limits));
  const grpc::Status parsed =
      grpc::SerializationTraits<google::protobuf::Message>::Deserialize(
          bytes, message);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed ", message->GetDescriptor()->name(),
                     ": not a message of that type, or a string in it is not "
                     "UTF-8"));
  }
  // Nobody reads fields that are unknown here, and whoever keeps a message does
  // not count them.
  message->DiscardUnknownFields();
  return CheckEntries(*message, limits);
}

absl::StatusOr<grpc::ByteBuffer> Serialize(
    const google::protobuf::Message& message, const MessageLimits& limits) {
  const uint64_t size = message.ByteSizeLong();
  if (size > limits.max_message_bytes) return OverTheLimit(size, limits);
  grpc::ByteBuffer bytes;
  bool owns_buffer = false;
  const grpc::Status status =
      grpc::SerializationTraits<google::protobuf::Message>::Serialize(
          message, &bytes, &owns_buffer);
  if (!status.ok()) return absl::InternalError(status.error_message());
  return bytes;
}

absl::StatusOr<uint64_t> BytesForValues(size_t num_values,
                                        const MessageLimits& limits) {
  const uint64_t overhead = num_values * kMaxValueOverheadBytes;
  if (overhead >= limits.max_message_bytes) {
    return OverTheLimit(overhead, limits);
  }
  return limits.max_message_bytes - overhead;
}

absl::StatusOr<grpc::ByteBuffer> EncodeValues(const PullReply& reply,
                                              const MessageLimits& limits) {
  return Limited(EncodePullReply(reply), limits);
}

absl::StatusOr<grpc::ByteBuffer> EncodeManifest(const PullReply& reply,
                                                const MessageLimits& limits) {
  return Limited(EncodePullManifest(reply), limits);
}

absl::StatusOr<grpc::ByteBuffer> EncodeResults(const PushReply& reply,
                                               const MessageLimits& limits) {
  return Limited(EncodePushReply(reply), limits);
}

absl::Status PutInUsualForm(grpc::ByteBuffer* bytes,
                            const MessageLimits& limits,
                            google::protobuf::Message* message) {
  RETURN_IF_ERROR(Parse(bytes, limits, message));
  bool owns_buffer = false;
  const grpc::Status written =
      grpc::SerializationTraits<google::protobuf::Message>::Serialize(
          *message, bytes, &owns_buffer);
  if (!written.ok()) return absl::InternalError(written.error_message());
  return absl::OkStatus();
}

}  // namespace tensorkv
