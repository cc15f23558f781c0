// Copies of any size, divided and packed into parts that fit a slot.

#ifndef TENSORKV_KERNELS_CUDA_COPY_CURSOR_H_
#define TENSORKV_KERNELS_CUDA_COPY_CURSOR_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace tensorkv {

// Divides copies into parts that fit a slot, one after the other: a large copy
// gives several parts, many small ones share one. Copies no bytes itself. Not
// thread-safe.
class CopyCursor {
 public:
  // Bytes of one copy, and the offset in the slot through which they pass.
  struct Piece {
    MemoryCopy copy;
    size_t offset = 0;
  };

  explicit CopyCursor(std::vector<MemoryCopy> copies);

  // Returns whether all bytes have been handed out.
  bool is_done() const { return next_ == copies_.size(); }

  // Returns the next part: as many pieces as fit a slot of so many bytes (above
  // 0), each aligned to 64 bytes there. REQUIRES: !is_done().
  std::vector<Piece> Next(size_t slot_bytes);

 private:
  // Takes up to `max_bytes` off the copy at next_.
  MemoryCopy TakePiece(size_t max_bytes);
  void SkipEmpty();

  std::vector<MemoryCopy> copies_;
  // The first copy of which something is left.
  size_t next_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_COPY_CURSOR_H_
