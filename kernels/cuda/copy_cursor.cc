#include "kernels/cuda/copy_cursor.h"

#include <algorithm>

namespace tensorkv {

CopyCursor::CopyCursor(std::vector<MemoryCopy> copies)
    : copies_(std::move(copies)) {
  SkipEmpty();
}

std::vector<MemoryCopy> CopyCursor::Next(size_t max_bytes, size_t max_pieces) {
  std::vector<MemoryCopy> pieces;
  while (!is_done() && max_bytes > 0 && pieces.size() < max_pieces) {
    pieces.push_back(TakePiece(max_bytes));
    max_bytes -= pieces.back().size_bytes;
    SkipEmpty();
  }
  return pieces;
}

MemoryCopy CopyCursor::TakePiece(size_t max_bytes) {
  MemoryCopy& rest = copies_[next_];
  MemoryCopy piece = rest;
  piece.size_bytes = std::min(rest.size_bytes, max_bytes);
  rest.from += piece.size_bytes;
  rest.to += piece.size_bytes;
  rest.size_bytes -= piece.size_bytes;
  return piece;
}

void CopyCursor::SkipEmpty() {
  while (!is_done() && copies_[next_].size_bytes == 0) ++next_;
}

}  // namespace tensorkv
