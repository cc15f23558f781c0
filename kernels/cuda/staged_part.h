// What passes through one slot together, and how it lies there.

#ifndef TENSORKV_KERNELS_CUDA_STAGED_PART_H_
#define TENSORKV_KERNELS_CUDA_STAGED_PART_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/update_table.h"

namespace tensorkv {

// Pieces of copies in one direction, between host memory and tensors of a
// device. A few pieces are as many transfers. Many are one transfer between the
// slot and scratch memory of the device, where they lie as in the slot, and one
// kernel, which moves them between there and their tensors; its table of work
// lies behind them, or travels with it where it is small.
//
// Not thread-safe. A stream uses the scratch for one part after the other.
class StagedPart {
 public:
  enum class Direction { kToDevice, kToHost };

  // So many pieces have their places, and their table, in the room.
  static constexpr size_t kMaxPieces = 1024;
  // What slots and scratch must have, for so many pieces of `size_bytes`
  // together. A multiple of 64.
  static size_t RoomFor(size_t size_bytes);

  // The table of a kernel that makes the copies, all of it by itself.
  static UpdateTable TableOf(absl::Span<const MemoryCopy> copies);

  StagedPart() = default;
  // REQUIRES: at least one, at most as many as there is room for; `scratch` is
  // memory of the device, 64-byte aligned.
  StagedPart(std::vector<MemoryCopy> pieces, Direction direction,
             char* scratch);

  // The copies between host memory and the slot, on this thread.
  void FillSlot(char* slot) const;
  void EmptySlot(const char* slot) const;

  // Starts the rest on `stream`. Errors: those of the device.
  absl::Status Enqueue(char* slot, Stream& stream) const;

 private:
  // As many transfers take longer than a kernel and its table.
  static constexpr size_t kMinPiecesToPack = 8;

  bool is_packed() const { return pieces_.size() >= kMinPiecesToPack; }
  void Place();
  void MakeTable();
  absl::Status EnqueueEach(char* slot, Stream& stream) const;

  std::vector<MemoryCopy> pieces_;
  Direction direction_ = Direction::kToDevice;
  char* scratch_ = nullptr;
  // By piece: where it is in the slot.
  std::vector<size_t> offsets_;
  // Behind the last piece, aligned.
  size_t end_ = 0;
  UpdateTable table_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_STAGED_PART_H_
