// How the bytes of a contribution hold its elements, where they are not simply
// one after another. The formats are those of v1::Encoding, which explains them
// to the bit.
//
// Plain structs and pure functions, constexpr, for host and device.

#ifndef TENSORKV_TENSOR_PACKING_H_
#define TENSORKV_TENSOR_PACKING_H_

#include <stdint.h>

namespace tensorkv {

// The numbers are those of the fields of v1::Encoding, which has one for each
// kind.
enum class PackingKind : uint8_t {
  kTwoBit = 1,
  kOneBit = 2,
  kTopK = 3,
  kRandomK = 4,
  kDithering = 5,
  kBlocks = 6,
};

// How one payload is packed. Each member names the kinds that use it; it is
// zero in the others.
struct Packing {
  PackingKind kind = PackingKind::kTwoBit;
  // Top-k and random-k: the dtype of the values; blocks: that of the elements.
  // The number of a DType.
  uint8_t element_dtype = 0;
  // Dithering: the bits of one code, 2, 4 or 8.
  uint8_t bits = 0;
  // Dithering: whether levels are powers of two.
  bool is_natural = false;
  // 2-bit: the threshold; 1-bit: the scale; dithering: the norm.
  float scale = 0;
  // Random-k: the elements of a block, one of which is present; blocks: the
  // elements that share a scale.
  uint32_t block_size = 0;
  // Top-k: the number of values that are present.
  uint64_t count = 0;
  // Random-k: the seed of RandomKOffset.
  uint64_t seed = 0;
  // All kinds: the number of elements that the payload decodes to.
  uint64_t num_elements = 0;

  friend bool operator==(const Packing&, const Packing&) = default;
};

// Returns whether the payload has some of the elements as they are (top-k and
// random-k), and not a code for each element.
constexpr bool HasValues(const Packing& packing) {
  return packing.kind == PackingKind::kTopK ||
         packing.kind == PackingKind::kRandomK;
}

// Returns `bytes` rounded up to a multiple of 8: what follows a table of so
// many bytes in a payload begins there.
constexpr uint64_t AlignedTo8(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

// Returns the number of blocks of `packing`, the last of which may be shorter.
// REQUIRES: block_size is not 0.
constexpr uint64_t NumBlocks(const Packing& packing) {
  return packing.num_elements / packing.block_size +
         (packing.num_elements % packing.block_size != 0);
}

// Returns the bytes that one index of top-k takes.
constexpr uint64_t IndexBytes(const Packing& packing) {
  return packing.num_elements > (uint64_t{1} << 32) ? 8 : 4;
}

// Returns where in a payload of top-k the values begin: after the indices.
constexpr uint64_t TopKValuesOffset(const Packing& packing) {
  return AlignedTo8(packing.count * IndexBytes(packing));
}

// Returns where in a payload of blocks the elements begin: after the scales.
constexpr uint64_t BlockElementsOffset(const Packing& packing) {
  return AlignedTo8(NumBlocks(packing) * sizeof(float));
}

struct PhiloxWords {
  uint32_t words[4];
};

// Returns the output of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
// Random Numbers: As Easy as 1, 2, 3; 2011) for the counter {low and high half
// of `counter`, 0, 0} and the key {low and high half of `key`}.
constexpr PhiloxWords Philox(uint64_t counter, uint64_t key) {
  uint32_t x[4] = {static_cast<uint32_t>(counter),
                   static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t x0 = static_cast<uint32_t>(b >> 32) ^ x[1] ^ k0;
    const uint32_t x2 = static_cast<uint32_t>(a >> 32) ^ x[3] ^ k1;
    x[0] = x0;
    x[1] = static_cast<uint32_t>(b);
    x[2] = x2;
    x[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{x[0], x[1], x[2], x[3]}};
}

// Returns which element of block `block` is present in random-k, counted from
// the start of the block.
constexpr uint32_t RandomKOffset(const Packing& packing, uint64_t block) {
  const uint64_t left = packing.num_elements - block * packing.block_size;
  const uint64_t size = left < packing.block_size ? left : packing.block_size;
  const uint32_t random = Philox(block, packing.seed).words[0];
  return static_cast<uint32_t>(random * size >> 32);
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_PACKING_H_
