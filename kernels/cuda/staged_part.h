// What passes through one slot together, and how it lies there.

#ifndef TENSORKV_KERNELS_CUDA_STAGED_PART_H_
#define TENSORKV_KERNELS_CUDA_STAGED_PART_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/pinned_arena.h"
#include "kernels/cuda/update_table.h"

namespace tensorkv {

// Pieces of copies in one direction, between host memory and tensors of a
// device. A few pieces are as many transfers. Many are one transfer between the
// slot and scratch memory of the device, where they lie as in the slot, and one
// kernel, which moves them between there and their tensors; its table of work
// lies behind them, or travels with it where it is small. Pieces that lie one
// behind the other in the arena stand for the slot themselves, which then has
// the table alone.
//
// Not thread-safe. A stream uses the scratch for one part after the other.
class StagedPart {
 public:
  enum class Direction { kToDevice, kToHost };

  // So many pieces have their places, and their table, in the room.
  static constexpr size_t kMaxPieces = 1024;
  // What slots and scratch must have, for so many pieces of `size_bytes`
  // together. A multiple of 64.
  static size_t RoomFor(size_t size_bytes, size_t num_pieces = kMaxPieces);

  // How many of the first of `copies` lie one behind the other on the host,
  // with less than an aligned step between two, where nobody else can be.
  static size_t NumInRow(absl::Span<const MemoryCopy> copies,
                         Direction direction);

  StagedPart() = default;
  // REQUIRES: at least one, at most as many as there is room for; `scratch` is
  // memory of the device, 64-byte aligned.
  StagedPart(std::vector<MemoryCopy> pieces, Direction direction, char* scratch,
             const PinnedArena& arena);

  // The copies between host memory and the slot, on this thread.
  void FillSlot(char* slot) const;
  void EmptySlot(const char* slot) const;

  // Starts the rest on `stream`. Errors: those of the device.
  absl::Status Enqueue(char* slot, Stream& stream) const;

 private:
  // As many transfers take longer than a kernel and its table.
  static constexpr size_t kMinPiecesToPack = 8;

  bool is_packed() const { return pieces_.size() >= kMinPiecesToPack; }
  // Where a piece is on the host.
  static char* HostOf(const MemoryCopy& piece, Direction direction) {
    return direction == Direction::kToDevice ? const_cast<char*>(piece.from)
                                             : piece.to;
  }
  char* HostOf(const MemoryCopy& piece) const {
    return HostOf(piece, direction_);
  }
  bool LiesIn(const PinnedArena& arena) const;
  // Where the table is in a slot.
  size_t table_offset() const { return is_in_arena_ ? 0 : end_; }
  // The bytes that all pieces take in the arena, with those between them.
  size_t BytesInArena() const {
    return offsets_.back() + pieces_.back().size_bytes;
  }
  void Place();
  void MakeTable();
  absl::Status EnqueueEach(char* slot, Stream& stream) const;
  absl::Status EnqueueScatter(char* slot, Stream& stream) const;
  absl::Status EnqueueGather(char* slot, Stream& stream) const;
  absl::Status CopyTable(char* slot, Stream& stream) const;
  absl::Status LaunchKernels(const char* slot, Stream& stream) const;

  std::vector<MemoryCopy> pieces_;
  Direction direction_ = Direction::kToDevice;
  char* scratch_ = nullptr;
  // Whether the pieces need no slot.
  bool is_in_arena_ = false;
  // By piece: where it is in the slot, or behind the first piece in the arena.
  std::vector<size_t> offsets_;
  // Behind the last piece, aligned.
  size_t end_ = 0;
  UpdateTable table_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STAGED_PART_H_
