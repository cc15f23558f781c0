#include "client/internal/transfer/pull_reply_decoder.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
#include "client/internal/transfer/tensor_memory.h"
#include "contract/payload_reader.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

absl::StatusOr<PullReply> CheckTicket(PullReply reply) {
  ASSIGN_OR_RETURN(const uint64_t total_bytes,
                   CheckReply(TotalBytes(TensorSizes(reply.values))));
  if (reply.ticket->size_bytes == total_bytes) return reply;
  return MalformedReply(absl::InternalError(
      absl::StrCat("expected a ticket for ", total_bytes, " bytes, got ",
                   reply.ticket->size_bytes)));
}

}  // namespace

absl::StatusOr<PullReply> DecodePullReply(
    grpc::ByteBuffer* bytes, uint32_t max_entries, BufferPool& pool,
    absl::Span<const Destination> destinations) {
  ASSIGN_OR_RETURN(
      Decoded<PullReply> decoded,
      (ReadAnyForm<v1::PullResponse, PullReply>(bytes, max_entries)));
  std::vector<Value>& values = decoded.call.values;
  RETURN_IF_ERROR(AllocateTensors(absl::MakeSpan(values), pool, destinations));
  if (decoded.call.ticket) return CheckTicket(std::move(decoded.call));
  std::vector<Tensor*> tensors;
  tensors.reserve(values.size());
  for (Value& value : values) tensors.push_back(&value.tensor);
  grpc::ProtoBufferReader payloads(bytes);
  if (ReadPayloads(&payloads, decoded.payloads, tensors)) {
    return std::move(decoded.call);
  }
  return MalformedReply(absl::InternalError("it ends early"));
}

}  // namespace tensorkv
