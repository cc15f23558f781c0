// The bytes of a message, in pieces that need not be next to each other.

#ifndef TENSORKV_CONTRACT_ENCODED_MESSAGE_H_
#define TENSORKV_CONTRACT_ENCODED_MESSAGE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "base/ref_counted.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Says whether the tensors of a message have their elements, or none, as those
// in manifests.
enum class Elements { kPresent, kLeftOut };

// Pieces of memory that, one after another, are one encoded message: metadata
// that the encoder wrote, and elements where they already are. Keeps all of it
// alive. The memory must not change while a transport still reads it; a store
// never writes a buffer that others hold.
//
// A value type; not thread-safe.
class EncodedMessage {
 public:
  struct Piece {
    RefPtr<Buffer> buffer;
    const char* data = nullptr;  // within the buffer
    size_t size_bytes = 0;
  };

  // Appends `size_bytes` bytes at `data`, which are within `buffer`. Leaves out
  // an empty piece.
  void Add(RefPtr<Buffer> buffer, const char* data, size_t size_bytes) {
    if (size_bytes == 0) return;
    size_bytes_ += size_bytes;
    pieces_.push_back({std::move(buffer), data, size_bytes});
  }

  const std::vector<Piece>& pieces() const { return pieces_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::vector<Piece> pieces_;
  size_t size_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_ENCODED_MESSAGE_H_
