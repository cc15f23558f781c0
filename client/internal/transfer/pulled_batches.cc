#include "client/internal/transfer/pulled_batches.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
#include "client/internal/transfer/tensor_memory.h"
#include "contract/wire_tags.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {

bool PulledBatches::HasBatch(grpc::ByteBuffer* chunk) {
  grpc::ProtoBufferReader reader(chunk);
  const void* data = nullptr;
  int size_bytes = 0;
  return reader.Next(&data, &size_bytes) && size_bytes > 0 &&
         *static_cast<const uint8_t*>(data) ==
             wire::RunTag(v1::PullChunk::kBatchFieldNumber);
}

PulledBatches::PulledBatches(size_t num_entries, BufferPool& buffers)
    : num_entries_(num_entries), buffers_(buffers) {
  decoded_.call.values.reserve(num_entries);
}

absl::Status PulledBatches::Receive(StripeStream& stream,
                                    grpc::ByteBuffer message) {
  do {
    RETURN_IF_ERROR(Add(&message));
  } while (stream.Read(&message));
  const size_t num_values = decoded_.call.values.size();
  if (num_values == num_entries_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server ended the stream before ",
                                          num_entries_ - num_values, " of ",
                                          num_entries_, " values"));
}

absl::Status PulledBatches::Add(grpc::ByteBuffer* message) {
  std::vector<Value>& values = decoded_.call.values;
  const size_t begin = values.size();
  decoded_.payloads.clear();
  grpc::ProtoBufferReader metadata(message);
  if (!ReadPullBatch(&metadata, message->Length(), num_entries_, &decoded_)
           .ok()) {
    values.erase(values.begin() + begin, values.end());
    RETURN_IF_ERROR(ParseBatch(message));
  }
  RETURN_IF_ERROR(ReceiveElements(message, begin));
  if (values.size() > begin) return absl::OkStatus();
  return MalformedReply(absl::InternalError("a batch has no values"));
}

absl::Status PulledBatches::ReceiveElements(grpc::ByteBuffer* message,
                                            size_t begin) {
  const auto values = absl::MakeSpan(decoded_.call.values).subspan(begin);
  RETURN_IF_ERROR(AllocateTensors(values, buffers_));
  tensors_.clear();
  for (Value& value : values) tensors_.push_back(&value.tensor);
  grpc::ProtoBufferReader payloads(message);
  if (ReadPayloads(&payloads, decoded_.payloads, tensors_)) {
    return absl::OkStatus();
  }
  return MalformedReply(absl::InternalError("a batch ends early"));
}

absl::Status PulledBatches::ParseBatch(grpc::ByteBuffer* message) {
  v1::PullChunk chunk;
  RETURN_IF_ERROR(Parse(message, &chunk));
  if (!chunk.has_batch()) {
    return MalformedReply(absl::InternalError(
        absl::StrCat("expected a batch, got ",
                     chunk.has_manifest() ? "a manifest" : "a part")));
  }
  ASSIGN_OR_RETURN(Decoded<PullReply> decoded,
                   ReadMessage<PullReply>(*chunk.mutable_batch(),
                                          Elements::kPresent, message));
  std::vector<Value>& batch = decoded.call.values;
  std::vector<Value>& values = decoded_.call.values;
  decoded_.payloads = std::move(decoded.payloads);
  decoded_.call.snapshot_number = decoded.call.snapshot_number;
  if (batch.size() > num_entries_ - values.size()) {
    return MalformedReply(absl::InternalError(
        absl::StrCat("expected ", num_entries_, " values, got ",
                     values.size() + batch.size())));
  }
  values.insert(values.end(), std::make_move_iterator(batch.begin()),
                std::make_move_iterator(batch.end()));
  return absl::OkStatus();
}

}  // namespace tensorkv
