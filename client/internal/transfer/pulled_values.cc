#include "client/internal/transfer/pulled_values.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
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

ValueWriter::ValueWriter(absl::Span<Value> values)
    : sizes_(TensorSizes(values)) {
  destinations_.reserve(values.size());
  for (Value& value : values) {
    destinations_.push_back(value.tensor.mutable_data());
  }
}

absl::Status ValueWriter::Receive(StripeStream& stream,
                                  const Stripe& stripe) const {
  ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes_));
  ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, stripe));
  PartCursor cursor(sizes_, range);
  grpc::ByteBuffer message;
  while (stream.Read(&message)) {
    RETURN_IF_ERROR(ReceivePart(&message, cursor));
  }
  if (cursor.is_complete()) return absl::OkStatus();
  return EndedEarly(absl::StrCat(cursor.bytes_left(), " of the ",
                                 range.size_bytes(), " bytes of stripe ",
                                 stripe.index));
}

absl::StatusOr<std::vector<absl::Span<char>>> ValueWriter::Accept(
    const PartRange& part, PartCursor& cursor) const {
  if (part.size_bytes > cursor.bytes_left()) {
    return MalformedReply(absl::InvalidArgumentError(
        absl::StrCat("part: expected at most ", cursor.bytes_left(),
                     " bytes, got ", part.size_bytes)));
  }
  std::vector<absl::Span<char>> destinations;
  for (uint64_t bytes = part.size_bytes; bytes > 0;) {
    const PartRange next = *cursor.Next(bytes);
    const bool is_first = bytes == part.size_bytes;
    if (is_first && (next.entry != part.entry || next.offset != part.offset)) {
      return MalformedReply(absl::InvalidArgumentError(absl::StrCat(
          "part: expected entry ", next.entry, " at offset ", next.offset,
          ", got entry ", part.entry, " at offset ", part.offset)));
    }
    destinations.emplace_back(destinations_[next.entry] + next.offset,
                              next.size_bytes);
    bytes -= next.size_bytes;
  }
  return destinations;
}

absl::Status ValueWriter::ReceivePart(grpc::ByteBuffer* message,
                                      PartCursor& cursor) const {
  grpc::ProtoBufferReader metadata(message);
  const std::optional<EncodedPart> part =
      ReadPart(&metadata, message->Length());
  if (!part.has_value()) return ParsePart(message, cursor);
  ASSIGN_OR_RETURN(const std::vector<absl::Span<char>> destinations,
                   Accept(part->part, cursor));
  grpc::ProtoBufferReader data(message);
  if (CopyBytes(&data, part->data.offset, destinations)) {
    return absl::OkStatus();
  }
  return MalformedReply(absl::InternalError("a part ends early"));
}

absl::Status ValueWriter::ParsePart(grpc::ByteBuffer* message,
                                    PartCursor& cursor) const {
  v1::PullChunk chunk;
  RETURN_IF_ERROR(Parse(message, &chunk));
  if (!chunk.has_part()) {
    return MalformedReply(absl::InternalError("expected a part"));
  }
  const v1::Part& part = chunk.part();
  ASSIGN_OR_RETURN(
      const std::vector<absl::Span<char>> destinations,
      Accept({part.entry(), part.offset(), part.data().size()}, cursor));
  const char* data = part.data().data();
  for (const absl::Span<char> destination : destinations) {
    std::memcpy(destination.data(), data, destination.size());
    data += destination.size();
  }
  return absl::OkStatus();
}

absl::Status PulledValues::Receive(StripeStream& stream, const Stripe& stripe) {
  grpc::ByteBuffer message;
  if (!stream.Read(&message)) return EndedEarly("the manifest");
  RETURN_IF_ERROR(ReceiveManifest(&message));
  return writer_->Receive(stream, stripe);
}

absl::Status PulledValues::ReceiveManifest(grpc::ByteBuffer* message) {
  v1::PullChunk chunk;
  RETURN_IF_ERROR(Parse(message, &chunk));
  if (!chunk.has_manifest()) {
    return MalformedReply(
        absl::InternalError("expected the manifest first, got a part"));
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
  return writer_ ? CheckAgreement(manifest) : Allocate(std::move(manifest));
}

absl::Status PulledValues::Allocate(PullReply manifest) {
  RETURN_IF_ERROR(
      CheckReply(TotalBytes(TensorSizes(manifest.values))).status());
  RETURN_IF_ERROR(
      AllocateTensors(absl::MakeSpan(manifest.values), buffers_, given_));
  reply_ = std::move(manifest);
  writer_.emplace(absl::MakeSpan(reply_.values));
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

PullReply PulledValues::Release() {
  MutexLock lock(&mutex_);
  return std::move(reply_);
}

}  // namespace tensorkv
