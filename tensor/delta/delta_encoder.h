// Encodes what has changed from one tensor to another.

#ifndef TENSORKV_TENSOR_DELTA_DELTA_ENCODER_H_
#define TENSORKV_TENSOR_DELTA_DELTA_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/delta/delta_encodings.h"
#include "tensor/delta/delta_scratch.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Encodes block by block, each in what takes the fewest bytes of what the
// reader takes: elements are compared by their bits, so that `to` is told to
// the bit. zstd is not tried on the whole where another encoding takes a small
// part of the block, or a sample gains little. Takes as much memory as the
// delta.
//
//   DeltaEncoder encoder(from, to, DeltaEncodings::All());
//   DeltaScratch scratch;
//   for (size_t i = 0; i < encoder.num_blocks(); ++i) {
//     encoder.EncodeBlock(i, scratch);
//   }
//   if (encoder.size_bytes() < to.size_bytes()) ...
class DeltaEncoder {
 public:
  // Both are host memory that outlives the encoder and stays as it is.
  // REQUIRES: they have the same dtype and size.
  DeltaEncoder(TensorView from, TensorView to, DeltaEncodings accepted)
      : from_(from),
        to_(to),
        accepted_(accepted),
        blocks_(NumDeltaBlocks(to.size_bytes())) {}

  // Returns a bound on what the scratch of one thread takes for a tensor of so
  // many bytes.
  static size_t MaxScratchBytes(size_t tensor_bytes);

  size_t num_blocks() const { return blocks_.size(); }
  // Threads may encode different blocks at a time.
  void EncodeBlock(size_t index, DeltaScratch& scratch);

  // REQUIRES for both: all blocks are encoded.
  size_t size_bytes() const;
  // Writes size_bytes() bytes.
  void Write(char* out) const;

 private:
  struct Block {
    // Takes `bytes` of this encoding if they are fewer.
    void TakeIfSmaller(DeltaEncoding encoding, absl::string_view bytes);

    DeltaEncoding encoding = DeltaEncoding::kWhole;
    // None are kept of kWhole.
    std::string bytes;
    size_t size_bytes = 0;
  };
  struct BlockView {
    const char* from = nullptr;
    const char* to = nullptr;
    size_t bytes = 0;
  };

  // Returns how many elements have changed.
  size_t TryOneUlp(const BlockView& view, DeltaScratch& scratch,
                   Block& block) const;
  void TrySparse(const BlockView& view, DeltaScratch& scratch,
                 Block& block) const;
  void TryXor(const BlockView& view, DeltaScratch& scratch, Block& block) const;

  const TensorView from_;
  const TensorView to_;
  const DeltaEncodings accepted_;
  std::vector<Block> blocks_;
};

// Returns the delta; nothing where the whole tensor takes no more bytes.
std::optional<std::string> EncodeDelta(TensorView from, TensorView to,
                                       DeltaEncodings accepted);

// Returns the digest of a tensor's bytes, as Stat tells it.
uint64_t DigestOf(TensorView tensor);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_DELTA_DELTA_ENCODER_H_
