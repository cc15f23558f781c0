#include "contract/wire_writer.h"

#include <bit>
#include <cstring>
#include <memory>

namespace tensorkv::wire {

void TensorHeader::Make(Tag tag, DType dtype, const Shape& shape,
                        size_t size_bytes) {
  tag_ = tag;
  dtype_ = dtype;
  shape_ = shape;
  elements_bytes_ = size_bytes;
  std::array<char, kMaxBytes> fields;
  char* end = fields.data();
  if (dtype != DType::kUnknown) {
    *end++ = static_cast<char>(kTensorDType);
    end = WriteNumber(static_cast<uint64_t>(dtype), end);
  }
  if (const size_t bytes = NumbersSize(shape.dimensions()); bytes > 0) {
    end = WriteRunHeader(kTensorShape, bytes, end);
    for (const int64_t each : shape.dimensions()) end = WriteNumber(each, end);
  }
  if (size_bytes > 0) end = WriteRunHeader(kTensorData, size_bytes, end);
  const size_t fields_bytes = end - fields.data();
  char* const next =
      WriteRunHeader(tag, fields_bytes + size_bytes, bytes_.data());
  std::memcpy(next, fields.data(), fields_bytes);
  size_ = next + fields_bytes - bytes_.data();
}

RefPtr<Buffer> AllocateBytes(size_t size_bytes, BufferPool* pool) {
  RefPtr<Buffer> pooled =
      pool == nullptr ? nullptr : pool->Allocate(size_bytes).value_or(nullptr);
  if (pooled) return pooled;
  auto bytes = std::make_unique_for_overwrite<char[]>(size_bytes);
  char* const begin = bytes.get();
  return MakeRefCounted<AdoptedBuffer>(begin, size_bytes,
                                       [keep_alive = std::move(bytes)] {});
}

WireWriter::WireWriter(const WireSize& size, BufferPool* pool)
    : elements_(size.elements()),
      copied_(AllocateBytes(size.copied_bytes(), pool)),
      piece_(copied_->mutable_data()),
      next_(copied_->mutable_data()),
      next_length_(size.lengths().data()) {}

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
  Copy(bytes);
}

void WireWriter::Numbers(Tag tag, absl::Span<const int64_t> numbers) {
  if (numbers.empty()) return;
  WriteRunHeader(tag, NumbersSize(numbers));
  for (int64_t number : numbers) WriteNumber(number);
}

void WireWriter::Bytes(Tag tag, const Payload& payload) {
  if (payload.bytes.empty()) return;
  WriteRunHeader(tag, payload.bytes.size());
  WritePayload(payload);
}

void WireWriter::Tensor(Tag tag, DType dtype, const Shape& shape,
                        const Payload& payload) {
  const bool has_elements =
      elements_ == Elements::kPresent && !payload.bytes.empty();
  Copy(header_.Get(tag, dtype, shape, has_elements ? payload.bytes.size() : 0));
  if (has_elements) WritePayload(payload);
}

void WireWriter::WritePayload(const Payload& payload) {
  if (payload.bytes.size() <= kMaxCopiedBytes) return Copy(payload.bytes);
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
