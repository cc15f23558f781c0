#include "kernels/cuda/copy_cursor.h"

#include <algorithm>

#include "tensor/buffer.h"

namespace tensorkv {

CopyCursor::CopyCursor(std::vector<MemoryCopy> copies)
    : copies_(std::move(copies)) {
  SkipEmpty();
}

std::vector<CopyCursor::Piece> CopyCursor::Next(size_t slot_bytes) {
  std::vector<Piece> pieces;
  for (size_t offset = 0; !is_done() && offset < slot_bytes;) {
    const MemoryCopy piece = TakePiece(slot_bytes - offset);
    pieces.push_back({piece, offset});
    offset = (offset + piece.size_bytes + kBufferAlignment - 1) /
             kBufferAlignment * kBufferAlignment;
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
