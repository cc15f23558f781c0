#include "kernels/cuda/staged_part.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// That of buffers, so that neighbours in the arena have no more between them.
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

size_t StagedPart::RoomFor(size_t size_bytes, size_t num_pieces) {
  const size_t table_bytes = num_pieces * TableBytesPerPiece() +
                             size_bytes / kChunkElements * sizeof(WorkChunk);
  return Aligned(size_bytes + num_pieces * kAlignment + table_bytes, 64);
}

size_t StagedPart::NumInRow(absl::Span<const MemoryCopy> copies,
                            Direction direction) {
  size_t num = 1;
  for (; num < copies.size(); ++num) {
    const MemoryCopy& last = copies[num - 1];
    const char* const end = HostOf(last, direction) + last.size_bytes;
    const char* const next = HostOf(copies[num], direction);
    if (next < end || next >= end + kAlignment) break;
  }
  return num;
}

StagedPart::StagedPart(std::vector<MemoryCopy> pieces, Direction direction,
                       char* scratch, const PinnedArena& arena)
    : pieces_(std::move(pieces)),
      direction_(direction),
      scratch_(scratch),
      is_in_arena_(LiesIn(arena)) {
  Place();
  if (is_packed()) MakeTable();
}

bool StagedPart::LiesIn(const PinnedArena& arena) const {
  const char* const begin = HostOf(pieces_.front());
  const MemoryCopy& last = pieces_.back();
  return NumInRow(pieces_, direction_) == pieces_.size() &&
         arena.Has(begin, HostOf(last) + last.size_bytes - begin);
}

void StagedPart::Place() {
  offsets_.reserve(pieces_.size());
  for (const MemoryCopy& piece : pieces_) {
    if (is_in_arena_) end_ = HostOf(piece) - HostOf(pieces_.front());
    offsets_.push_back(end_);
    end_ = Aligned(end_ + piece.size_bytes, kAlignment);
  }
}

void StagedPart::MakeTable() {
  const bool to_device = direction_ == Direction::kToDevice;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    char* const in_scratch = scratch_ + offsets_[i];
    const TensorView from = BytesAt(to_device ? in_scratch : pieces_[i].from,
                                    pieces_[i].size_bytes);
    table_.Add({MoveOf(from, to_device ? pieces_[i].to : in_scratch)});
  }
}

void StagedPart::FillSlot(char* slot) const {
  if (is_in_arena_) return;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::memcpy(slot + offsets_[i], pieces_[i].from, pieces_[i].size_bytes);
  }
}

void StagedPart::EmptySlot(const char* slot) const {
  if (is_in_arena_) return;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::memcpy(pieces_[i].to, slot + offsets_[i], pieces_[i].size_bytes);
  }
}

absl::Status StagedPart::Enqueue(char* slot, Stream& stream) const {
  if (!is_packed()) return EnqueueEach(slot, stream);
  table_.Write(slot + table_offset());
  return direction_ == Direction::kToDevice ? EnqueueScatter(slot, stream)
                                            : EnqueueGather(slot, stream);
}

absl::Status StagedPart::EnqueueEach(char* slot, Stream& stream) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const MemoryCopy& piece = pieces_[i];
    char* const in_slot = is_in_arena_ ? HostOf(piece) : slot + offsets_[i];
    RETURN_IF_ERROR(
        direction_ == Direction::kToDevice
            ? stream.CopyToDevice(piece.to, in_slot, piece.size_bytes)
            : stream.CopyToHost(in_slot, piece.from, piece.size_bytes));
  }
  return absl::OkStatus();
}

absl::Status StagedPart::EnqueueScatter(char* slot, Stream& stream) const {
  if (is_in_arena_) {
    RETURN_IF_ERROR(
        stream.CopyToDevice(scratch_, HostOf(pieces_.front()), BytesInArena()));
    RETURN_IF_ERROR(CopyTable(slot, stream));
  } else {
    const size_t table_bytes = table_.fits_launches() ? 0 : table_.size_bytes();
    RETURN_IF_ERROR(stream.CopyToDevice(scratch_, slot, end_ + table_bytes));
  }
  return LaunchKernels(slot, stream);
}

absl::Status StagedPart::EnqueueGather(char* slot, Stream& stream) const {
  RETURN_IF_ERROR(CopyTable(slot, stream));
  RETURN_IF_ERROR(LaunchKernels(slot, stream));
  return is_in_arena_ ? stream.CopyToHost(HostOf(pieces_.front()), scratch_,
                                          BytesInArena())
                      : stream.CopyToHost(slot, scratch_, end_);
}

absl::Status StagedPart::CopyTable(char* slot, Stream& stream) const {
  if (table_.fits_launches()) return absl::OkStatus();
  return stream.CopyToDevice(scratch_ + end_, slot + table_offset(),
                             table_.size_bytes());
}

absl::Status StagedPart::LaunchKernels(const char* slot, Stream& stream) const {
  for (const UpdateLaunch& launch :
       table_.fits_launches() ? table_.LaunchesWith(slot + table_offset())
                              : table_.LaunchesAt(scratch_ + end_)) {
    RETURN_IF_ERROR(stream.Launch(launch));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
