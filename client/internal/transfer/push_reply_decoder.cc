#include "client/internal/transfer/push_reply_decoder.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {

absl::StatusOr<PushReply> DecodePushReply(grpc::ByteBuffer* bytes,
                                          uint32_t max_results) {
  grpc::ProtoBufferReader reader(bytes);
  std::optional<PushReply> reply =
      ReadPushReply(&reader, bytes->Length(), max_results);
  if (reply) return *std::move(reply);
  v1::PushResponse response;
  RETURN_IF_ERROR(Parse(bytes, &response));
  return FromProto(response);
}

}  // namespace tensorkv
