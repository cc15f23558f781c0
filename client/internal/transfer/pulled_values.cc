#include "client/internal/transfer/pulled_values.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
#include "client/internal/transfer/pulled_batches.h"
#include "client/internal/transfer/tensor_memory.h"
#include "contract/payload_reader.h"
#include "contract/stream_codec.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {
namespace {

absl::Status EndedEarly(absl::string_view missing) {
  return absl::InternalError(
      absl::StrCat("the server ended the stream before ", missing));
}

bool SaySame(const Value& a, const Value& b) {
  return a.version == b.version && a.tensor.dtype() == b.tensor.dtype() &&
         a.tensor.shape() == b.tensor.shape();
}

std::string Describe(const Value& value) {
  return absl::StrCat("version ", value.version, " of ",
                      value.tensor.Description());
}

}  // namespace

absl::Status PulledValues::Receive(StripeStream& stream, const Stripe& stripe) {
  grpc::ByteBuffer message;
  if (!stream.Read(&message)) return EndedEarly("the manifest");
  if (allow_batches_ && PulledBatches::HasBatch(&message)) {
    PulledBatches batches(num_entries_, buffers_);
    RETURN_IF_ERROR(batches.Receive(stream, std::move(message)));
    MutexLock lock(&mutex_);
    reply_ = batches.Release();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ReceiveManifest(&message));
  ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes_));
  ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, stripe));
  PartCursor cursor(sizes_, range);
  while (stream.Read(&message)) {
    RETURN_IF_ERROR(ReceivePart(&message, cursor));
  }
  if (cursor.is_complete()) return absl::OkStatus();
  return EndedEarly(absl::StrCat(cursor.bytes_left(), " of the ",
                                 range.size_bytes(), " bytes of stripe ",
                                 stripe.index));
}

absl::Status PulledValues::ReceiveManifest(grpc::ByteBuffer* message) {
  v1::PullChunk chunk;
  RETURN_IF_ERROR(Parse(message, &chunk));
  if (!chunk.has_manifest()) {
    return MalformedReply(absl::InternalError(
        absl::StrCat("expected the manifest first, got a ",
                     chunk.has_batch() ? "batch" : "part")));
  }
  ASSIGN_OR_RETURN(Decoded<PullReply> manifest,
                   ReadMessage<PullReply>(*chunk.mutable_manifest(),
                                          Elements::kLeftOut, message));
  return TakeManifest(std::move(manifest.call));
}

absl::Status PulledValues::TakeManifest(PullReply manifest) {
  if (manifest.values.size() != num_entries_) {
    return MalformedReply(absl::InternalError(
        absl::StrCat("expected a manifest of ", num_entries_, " values, got ",
                     manifest.values.size())));
  }
  MutexLock lock(&mutex_);
  if (has_manifest_) return CheckAgreement(manifest);
  RETURN_IF_ERROR(Allocate(std::move(manifest)));
  has_manifest_ = true;
  return absl::OkStatus();
}

absl::Status PulledValues::Allocate(PullReply manifest) {
  std::vector<uint64_t> sizes = TensorSizes(manifest.values);
  RETURN_IF_ERROR(CheckReply(TotalBytes(sizes)).status());
  RETURN_IF_ERROR(
      AllocateTensors(absl::MakeSpan(manifest.values), buffers_, given_));
  reply_ = std::move(manifest);
  sizes_ = std::move(sizes);
  for (Value& value : reply_.values) {
    destinations_.push_back(value.tensor.mutable_data());
  }
  return absl::OkStatus();
}

absl::Status PulledValues::CheckAgreement(const PullReply& manifest) const {
  for (size_t i = 0; i < num_entries_; ++i) {
    const Value& first = reply_.values[i];
    const Value& other = manifest.values[i];
    if (SaySame(first, other)) continue;
    return MalformedReply(absl::InternalError(
        absl::StrCat("the stripes disagree about value ", i, ": ",
                     Describe(first), " and ", Describe(other))));
  }
  return absl::OkStatus();
}

absl::Status PulledValues::ReceivePart(grpc::ByteBuffer* message,
                                       PartCursor& cursor) {
  grpc::ProtoBufferReader metadata(message);
  const std::optional<EncodedPart> part =
      ReadPart(&metadata, message->Length());
  if (!part.has_value()) return ParsePart(message, cursor);
  if (const absl::Status status = cursor.Accept(part->part); !status.ok()) {
    return MalformedReply(status);
  }
  grpc::ProtoBufferReader data(message);
  char* const destination = destinations_[part->part.entry] + part->part.offset;
  if (CopyRange(&data, part->data, destination)) return absl::OkStatus();
  return MalformedReply(absl::InternalError("a part ends early"));
}

absl::Status PulledValues::ParsePart(grpc::ByteBuffer* message,
                                     PartCursor& cursor) {
  v1::PullChunk chunk;
  RETURN_IF_ERROR(Parse(message, &chunk));
  if (!chunk.has_part()) {
    return MalformedReply(absl::InternalError("expected a part"));
  }
  const v1::Part& proto = chunk.part();
  const PartRange part = {.entry = proto.entry(),
                          .offset = proto.offset(),
                          .size_bytes = proto.data().size()};
  if (const absl::Status status = cursor.Accept(part); !status.ok()) {
    return MalformedReply(status);
  }
  std::memcpy(destinations_[part.entry] + part.offset, proto.data().data(),
              part.size_bytes);
  return absl::OkStatus();
}

PullReply PulledValues::Release() {
  MutexLock lock(&mutex_);
  return std::move(reply_);
}

}  // namespace tensorkv
