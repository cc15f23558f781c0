#include "client/internal/transfer/pull_reply_decoder.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
#include "client/internal/transfer/tensor_memory.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

absl::StatusOr<PullReply> DecodeAnyForm(grpc::ByteBuffer* bytes) {
  v1::PullResponse response;
  RETURN_IF_ERROR(Parse(bytes, &response));
  return CheckReply(FromProto(std::move(response)));
}

}  // namespace

absl::StatusOr<PullReply> DecodePullReply(
    grpc::ByteBuffer* bytes, uint32_t max_entries, BufferPool& pool,
    absl::Span<const Destination> destinations) {
  grpc::ProtoBufferReader metadata(bytes);
  std::optional<DecodedPull> decoded =
      ReadPullReply(&metadata, bytes->Length(), max_entries);
  if (!decoded.has_value()) return DecodeAnyForm(bytes);
  std::vector<Value>& values = decoded->reply.values;
  RETURN_IF_ERROR(AllocateTensors(absl::MakeSpan(values), pool, destinations));
  std::vector<Tensor*> tensors;
  tensors.reserve(values.size());
  for (Value& value : values) tensors.push_back(&value.tensor);
  grpc::ProtoBufferReader payloads(bytes);
  if (ReadPayloads(&payloads, decoded->payloads, tensors)) {
    return std::move(decoded->reply);
  }
  return MalformedReply(absl::InternalError("it ends early"));
}

}  // namespace tensorkv
