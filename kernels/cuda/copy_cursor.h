// Copies of any size, cut and packed into parts of one size.

#ifndef TENSORKV_KERNELS_CUDA_COPY_CURSOR_H_
#define TENSORKV_KERNELS_CUDA_COPY_CURSOR_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace tensorkv {

// Walks over copies: large ones give several parts, many small ones share one.
// Not thread-safe.
class CopyCursor {
 public:
  explicit CopyCursor(std::vector<MemoryCopy> copies);

  // Whether all bytes have been handed out.
  bool is_done() const { return next_ == copies_.size(); }

  // The next bytes, as many as both bounds (above 0) allow: one piece of each
  // copy that they are of. REQUIRES: !is_done().
  std::vector<MemoryCopy> Next(size_t max_bytes, size_t max_pieces);

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
