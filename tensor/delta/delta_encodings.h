// The blocks of a delta, and how each may be encoded. tensor.proto (Delta) says
// what their bytes are.

#ifndef TENSORKV_TENSOR_DELTA_DELTA_ENCODINGS_H_
#define TENSORKV_TENSOR_DELTA_DELTA_ENCODINGS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace tensorkv {

// A delta goes by blocks of the tensor's bytes, the last of which may be
// shorter. Each is encoded by itself, so that threads can share the work.
inline constexpr size_t kDeltaBlockBytes = size_t{1} << 19;
// The encoding's number in a byte, and the size of what follows in a u32.
inline constexpr size_t kBlockHeaderBytes = 5;

// The numbers are those of tensorkv.v1.DeltaEncoding.
enum class DeltaEncoding : uint8_t {
  kUnchanged = 0,
  kWhole = 1,
  kSparse = 2,
  kXorZstd = 3,
  kOneUlp = 4,
  kOneUlpZstd = 5,
};
inline constexpr int kNumDeltaEncodings = 6;

// Which encodings a reader takes: kUnchanged and kWhole always.
class DeltaEncodings {
 public:
  constexpr DeltaEncodings(std::initializer_list<DeltaEncoding> encodings) {
    for (const DeltaEncoding encoding : encodings) Add(encoding);
  }
  static constexpr DeltaEncodings All() {
    return {DeltaEncoding::kSparse, DeltaEncoding::kXorZstd,
            DeltaEncoding::kOneUlp, DeltaEncoding::kOneUlpZstd};
  }

  constexpr void Add(DeltaEncoding encoding) { bits_ |= BitOf(encoding); }
  // Returns those that can apply to elements of so many bytes.
  constexpr DeltaEncodings ForElementsOf(size_t bytes) const {
    DeltaEncodings encodings = *this;
    if (bytes != sizeof(uint16_t)) {
      encodings.bits_ &=
          ~(BitOf(DeltaEncoding::kOneUlp) | BitOf(DeltaEncoding::kOneUlpZstd));
    }
    return encodings;
  }
  constexpr bool Has(DeltaEncoding encoding) const {
    return (bits_ & BitOf(encoding)) != 0;
  }

  friend auto operator<=>(const DeltaEncodings&,
                          const DeltaEncodings&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const DeltaEncodings& encodings) {
    return H::combine(std::move(state), encodings.bits_);
  }

 private:
  static constexpr uint32_t BitOf(DeltaEncoding encoding) {
    return uint32_t{1} << static_cast<int>(encoding);
  }

  uint32_t bits_ = 0b11;
};

// Returns how many blocks so many bytes have, and how many bytes one of these
// has.
constexpr size_t NumDeltaBlocks(size_t bytes) {
  return bytes / kDeltaBlockBytes + (bytes % kDeltaBlockBytes != 0);
}
constexpr size_t DeltaBlockBytes(size_t bytes, size_t block) {
  return std::min(kDeltaBlockBytes, bytes - block * kDeltaBlockBytes);
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_DELTA_DELTA_ENCODINGS_H_
