#include "client/internal/transfer/message_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace tensorkv {
namespace {

using Traits = grpc::SerializationTraits<google::protobuf::Message>;

}  // namespace

absl::Status CheckMessageSize(size_t message_bytes, size_t max_message_bytes) {
  if (message_bytes <= max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "message of ", message_bytes, " bytes: expected at most ",
      max_message_bytes, "; send fewer keys or tensors in one call"));
}

absl::StatusOr<grpc::ByteBuffer> Serialize(
    const google::protobuf::Message& message, size_t max_message_bytes) {
  RETURN_IF_ERROR(CheckMessageSize(message.ByteSizeLong(), max_message_bytes));
  grpc::ByteBuffer bytes;
  bool owns_buffer = false;
  const grpc::Status status = Traits::Serialize(message, &bytes, &owns_buffer);
  if (!status.ok()) return absl::InternalError(status.error_message());
  return bytes;
}

absl::Status Parse(grpc::ByteBuffer* bytes,
                   google::protobuf::Message* message) {
  if (Traits::Deserialize(bytes, message).ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("malformed reply: not a ",
                                          message->GetDescriptor()->name()));
}

absl::Status MalformedReply(const absl::Status& status) {
  return absl::InternalError(
      absl::StrCat("malformed reply: ", status.message()));
}

}  // namespace tensorkv
