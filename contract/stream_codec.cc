#include "contract/stream_codec.h"

#include <limits>

#include "absl/strings/string_view.h"
#include "contract/wire_reader.h"
#include "contract/wire_tags.h"
#include "contract/wire_writer.h"

namespace tensorkv {
namespace {

using wire::WireReader;

void Read(WireReader& in, EncodedPart* encoded) {
  PartRange& part = encoded->part;
  if (in.Accept(wire::kPartEntry)) {
    part.entry = in.ReadNumberUpTo(std::numeric_limits<uint32_t>::max());
  }
  if (in.Accept(wire::kPartOffset)) part.offset = in.ReadNumber();
  if (in.Accept(wire::kPartData)) part.size_bytes = in.ReadLength();
  encoded->data = {in.position(), part.size_bytes};
}

}  // namespace

EncodedMessage EncodePart(const PartRange& part, const Tensor& tensor,
                          uint64_t tensor_offset) {
  const absl::string_view data(tensor.data() + (part.offset - tensor_offset),
                               part.size_bytes);
  const auto write_part = [&](auto& out) {
    out.Number(wire::kPartEntry, part.entry);
    out.Number(wire::kPartOffset, part.offset);
    out.Bytes(wire::kPartData, wire::Payload{tensor.buffer(), data});
  };
  return wire::Encode(
      [&](auto& out) { out.Message(wire::kChunkPart, write_part); });
}

std::optional<EncodedPart> ReadPart(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes) {
  if (message_bytes > wire::kMaxMessageBytes) return std::nullopt;
  WireReader reader(in, message_bytes);
  if (!reader.Accept(wire::kChunkPart)) return std::nullopt;
  // The part is all of the chunk, and the data is the end of both.
  if (reader.ReadLength() != reader.bytes_left()) return std::nullopt;
  EncodedPart encoded;
  Read(reader, &encoded);
  if (!reader.ok() || encoded.part.size_bytes != reader.bytes_left()) {
    return std::nullopt;
  }
  return encoded;
}

}  // namespace tensorkv
