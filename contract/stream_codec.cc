#include "contract/stream_codec.h"

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/message_fields.h"
#include "contract/wire_reader.h"
#include "contract/wire_writer.h"

namespace tensorkv {
namespace {

using wire::WireReader;

using PartFields = wire::Fields<
    wire::Number<v1::Part::kEntryFieldNumber, &PartRange::entry>,
    wire::Number<v1::Part::kOffsetFieldNumber, &PartRange::offset>>;
constexpr wire::Tag kPartData = wire::RunTag(v1::Part::kDataFieldNumber);

}  // namespace

EncodedMessage EncodePart(const PartRange& part, const Tensor& tensor,
                          uint64_t tensor_offset) {
  const absl::string_view data(tensor.data() + (part.offset - tensor_offset),
                               part.size_bytes);
  wire::WireWriter out(
      {.likely_bytes =
           kPartOverheadBytes +
           (data.size() <= wire::kMaxCopiedBytes ? data.size() : 0)});
  out.Message(wire::kChunkPart, [&] {
    out.Bytes(kPartData, wire::Payload{tensor.buffer(), data});
    PartFields::Write(part, out);
  });
  return std::move(out).Finish();
}

EncodedMessage EncodeRun(absl::Span<const PartRange> ranges,
                         absl::Span<const Value> values) {
  std::vector<wire::Payload> payloads;
  payloads.reserve(ranges.size());
  size_t copied_bytes = 0;
  for (const PartRange& range : ranges) {
    const Tensor& tensor = values[range.entry].tensor;
    payloads.push_back(
        {tensor.buffer(), {tensor.data() + range.offset, range.size_bytes}});
    if (range.size_bytes <= wire::kMaxCopiedBytes) {
      copied_bytes += range.size_bytes;
    }
  }
  wire::WireWriter out({.likely_bytes = kPartOverheadBytes + copied_bytes});
  out.Message(wire::kChunkPart, [&] {
    out.Bytes(kPartData, payloads);
    PartFields::Write(ranges.front(), out);
  });
  return std::move(out).Finish();
}

std::optional<EncodedPart> ReadPart(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes) {
  if (message_bytes > wire::kMaxMessageBytes) return std::nullopt;
  WireReader reader(in, message_bytes);
  if (!reader.Accept(wire::kChunkPart)) return std::nullopt;
  // The part is all of the chunk, and the data is the end of both.
  if (reader.ReadLength() != reader.bytes_left()) return std::nullopt;
  PartRange part;
  PartFields::Read(reader, part);
  if (reader.Accept(kPartData)) part.size_bytes = reader.ReadLength();
  if (!reader.ok() || part.size_bytes != reader.bytes_left()) {
    return std::nullopt;
  }
  return EncodedPart{part, {reader.position(), part.size_bytes}};
}

}  // namespace tensorkv
