#include "kernels/cuda/staged_part.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// So that kernels find each piece aligned.
constexpr size_t kAlignment = kBufferAlignment;

size_t Aligned(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The kernel moves a piece as an update that assigns bytes.
TensorView BytesAt(const char* data, size_t size_bytes) {
  return {DType::kU8, static_cast<int64_t>(size_bytes), data};
}

TensorUpdate MoveOf(const TensorView& from, char* to) {
  static const UpdateRule* const kAssign = new UpdateRule();
  return {.rule = kAssign,
          .contributions = {&from, 1},
          .value = {DType::kU8, from.num_elements, to}};
}

// What a piece adds to the table: for a small one, and for each chunk more.
size_t TableBytesPerPiece() {
  const TensorView byte = BytesAt(nullptr, 1);
  return UpdateTable::MaxRoomOf({MoveOf(byte, nullptr)}).table_bytes;
}

}  // namespace

size_t StagedPart::RoomFor(size_t size_bytes) {
  const size_t table_bytes = kMaxPieces * TableBytesPerPiece() +
                             size_bytes / kChunkElements * sizeof(WorkChunk);
  return Aligned(size_bytes + kMaxPieces * kAlignment + table_bytes, 64);
}

UpdateTable StagedPart::TableOf(absl::Span<const MemoryCopy> copies) {
  UpdateTable table;
  for (const MemoryCopy& copy : copies) {
    const TensorView from = BytesAt(copy.from, copy.size_bytes);
    table.Add({MoveOf(from, copy.to)});
  }
  return table;
}

StagedPart::StagedPart(std::vector<MemoryCopy> pieces, Direction direction,
                       char* scratch)
    : pieces_(std::move(pieces)), direction_(direction), scratch_(scratch) {
  Place();
  if (is_packed()) MakeTable();
}

void StagedPart::Place() {
  offsets_.reserve(pieces_.size());
  for (const MemoryCopy& piece : pieces_) {
    offsets_.push_back(end_);
    end_ = Aligned(end_ + piece.size_bytes, kAlignment);
  }
}

void StagedPart::MakeTable() {
  std::vector<MemoryCopy> copies = pieces_;
  for (size_t i = 0; i < copies.size(); ++i) {
    char* const in_scratch = scratch_ + offsets_[i];
    if (direction_ == Direction::kToDevice) {
      copies[i].from = in_scratch;
    } else {
      copies[i].to = in_scratch;
    }
  }
  table_ = TableOf(copies);
}

void StagedPart::FillSlot(char* slot) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::memcpy(slot + offsets_[i], pieces_[i].from, pieces_[i].size_bytes);
  }
}

void StagedPart::EmptySlot(const char* slot) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::memcpy(pieces_[i].to, slot + offsets_[i], pieces_[i].size_bytes);
  }
}

absl::Status StagedPart::Enqueue(char* slot, Stream& stream) const {
  if (!is_packed()) return EnqueueEach(slot, stream);
  UpdateTable::Place place = {.host = slot + end_, .device = scratch_ + end_};
  table_.Write(slot + end_);
  if (direction_ == Direction::kToDevice) {
    const size_t table_bytes = table_.fits_launches() ? 0 : table_.size_bytes();
    RETURN_IF_ERROR(stream.CopyToDevice(scratch_, slot, end_ + table_bytes));
    return table_.Launch(place, stream);
  }
  RETURN_IF_ERROR(table_.CopyAndLaunch(place, stream));
  return stream.CopyToHost(slot, scratch_, end_);
}

absl::Status StagedPart::EnqueueEach(char* slot, Stream& stream) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const MemoryCopy& piece = pieces_[i];
    char* const in_slot = slot + offsets_[i];
    RETURN_IF_ERROR(
        direction_ == Direction::kToDevice
            ? stream.CopyToDevice(piece.to, in_slot, piece.size_bytes)
            : stream.CopyToHost(in_slot, piece.from, piece.size_bytes));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
