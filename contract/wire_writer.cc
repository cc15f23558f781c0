#include "contract/wire_writer.h"

#include <bit>
#include <cstring>
#include <memory>

namespace tensorkv::wire {

WireWriter::WireWriter(const WireSize& size)
    : next_length_(size.lengths().data()) {
  // On the ordinary heap: a HostBuffer's alignment is of no use here, and small
  // ones would waste most of it.
  auto bytes = std::make_unique_for_overwrite<char[]>(size.copied_bytes());
  next_ = bytes.get();
  piece_ = next_;
  copied_ = MakeRefCounted<AdoptedBuffer>(next_, size.copied_bytes(),
                                          [keep_alive = std::move(bytes)] {});
}

void WireWriter::Fixed64(Tag tag, uint64_t number) {
  if (number == 0) return;
  WriteTag(tag);
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(next_, &number, sizeof(number));
  next_ += sizeof(number);
}

void WireWriter::Fixed32(Tag tag, uint32_t number) {
  if (number == 0) return;
  WriteTag(tag);
  std::memcpy(next_, &number, sizeof(number));
  next_ += sizeof(number);
}

void WireWriter::Bytes(Tag tag, absl::string_view bytes) {
  if (bytes.empty()) return;
  WriteRunHeader(tag, bytes.size());
  std::memcpy(next_, bytes.data(), bytes.size());
  next_ += bytes.size();
}

void WireWriter::Numbers(Tag tag, absl::Span<const int64_t> numbers) {
  if (numbers.empty()) return;
  WriteRunHeader(tag, NumbersSize(numbers));
  for (int64_t number : numbers) WriteNumber(number);
}

void WireWriter::Bytes(Tag tag, const Payload& payload) {
  if (payload.bytes.size() <= kMaxCopiedBytes) return Bytes(tag, payload.bytes);
  WriteRunHeader(tag, payload.bytes.size());
  EndPiece();
  message_.Add(payload.buffer, payload.bytes.data(), payload.bytes.size());
}

EncodedMessage WireWriter::Finish() && {
  EndPiece();
  return std::move(message_);
}

void WireWriter::EndPiece() {
  message_.Add(copied_, piece_, next_ - piece_);
  piece_ = next_;
}

}  // namespace tensorkv::wire
