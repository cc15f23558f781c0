#include "contract/wire_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tensorkv/v1/tensor.pb.h"

namespace tensorkv::wire {
namespace {

RefPtr<Buffer> AllocateBytes(size_t size_bytes, BufferPool* pool) {
  RefPtr<Buffer> pooled =
      pool == nullptr ? nullptr : pool->Allocate(size_bytes).value_or(nullptr);
  if (pooled) return pooled;
  auto bytes = std::make_unique_for_overwrite<char[]>(size_bytes);
  char* const begin = bytes.get();
  return MakeRefCounted<AdoptedBuffer>(begin, size_bytes,
                                       [keep_alive = std::move(bytes)] {});
}

}  // namespace

void TensorHeader::Make(Tag tag, DType dtype, const Shape& shape,
                        size_t size_bytes) {
  tag_ = tag;
  dtype_ = dtype;
  shape_ = shape;
  elements_bytes_ = size_bytes;
  std::array<char, kMaxBytes> fields;
  char* end = fields.data();
  if (dtype != DType::kUnknown) {
    *end++ = static_cast<char>(NumberTag(v1::Tensor::kDtypeFieldNumber));
    end = WriteNumber(static_cast<uint64_t>(dtype), end);
  }
  size_t shape_bytes = 0;
  for (const int64_t each : shape.dimensions()) shape_bytes += NumberSize(each);
  if (shape_bytes > 0) {
    end =
        WriteRunHeader(RunTag(v1::Tensor::kShapeFieldNumber), shape_bytes, end);
    for (const int64_t each : shape.dimensions()) end = WriteNumber(each, end);
  }
  if (size_bytes > 0) {
    end = WriteRunHeader(RunTag(v1::Tensor::kDataFieldNumber), size_bytes, end);
  }
  const size_t fields_bytes = end - fields.data();
  char* const next =
      WriteRunHeader(tag, fields_bytes + size_bytes, bytes_.data());
  std::memcpy(next, fields.data(), fields_bytes);
  size_ = next + fields_bytes - bytes_.data();
}

WireWriter::WireWriter(const Options& options) : options_(options) {
  Grow(options.likely_bytes);
}

EncodedMessage WireWriter::Finish() && {
  EndPiece();
  EncodedMessage message;
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
    message.Add(std::move(piece->buffer), piece->data, piece->size_bytes);
  }
  return message;
}

void WireWriter::LongNumber(Tag tag, uint64_t number) {
  char* const begin = Take(sizeof(tag) + NumberSize(number));
  wire::WriteRunHeader(tag, number, begin);
}

void WireWriter::EndPiece() {
  if (next_ == end_) return;
  AddPiece(copied_, {next_, static_cast<size_t>(end_ - next_)});
  end_ = next_;
}

void WireWriter::AddPiece(const RefPtr<Buffer>& buffer,
                          absl::string_view bytes) {
  pieces_.push_back({buffer, bytes.data(), bytes.size()});
  pieces_bytes_ += bytes.size();
}

void WireWriter::Grow(size_t size_bytes) {
  EndPiece();
  if (copied_) size_bytes = std::max(size_bytes, 2 * copied_->size_bytes());
  copied_ = AllocateBytes(size_bytes, options_.pool);
  begin_ = copied_->mutable_data();
  next_ = end_ = begin_ + size_bytes;
}

}  // namespace tensorkv::wire
