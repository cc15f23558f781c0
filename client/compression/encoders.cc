#include "client/compression/encoders.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "tensor/float_formats.h"
#include "tensor/packing.h"

namespace tensorkv {
namespace {

using Kind = Compression::Kind;

// A payload of zeros and its encoding.
absl::StatusOr<EncodedTensor> Allocate(const Packing& packing,
                                       const Shape& shape) {
  EncodedTensor encoded;
  ASSIGN_OR_RETURN(encoded.encoding,
                   Encoding::Create(packing, DType::kF32, shape));
  const int64_t bytes = encoded.encoding->payload_bytes();
  ASSIGN_OR_RETURN(encoded.tensor, Tensor::Allocate(DType::kU8, {bytes}));
  if (bytes > 0) std::memset(encoded.tensor.mutable_data(), 0, bytes);
  return encoded;
}

absl::StatusOr<EncodedTensor> Zeros(const Shape& shape) {
  return Allocate({.kind = PackingKind::kTopK}, shape);
}

// Writes codes of `bits` bits, the first in the highest: `encode` turns an
// element into its code and leaves there what the code lacks.
template <uint32_t bits, typename EncodeElement>
void WriteCodes(absl::Span<float> elements, Tensor& payload,
                EncodeElement encode) {
  constexpr size_t kPerByte = 8 / bits;
  // Codes of a byte each, which are packed after: compilers vectorise both.
  constexpr size_t kRun = 512;
  uint8_t codes[kRun];
  auto* out = payload.mutable_elements<uint8_t>().data();
  for (size_t at = 0; at < elements.size(); at += kRun) {
    const size_t size = std::min(kRun, elements.size() - at);
    float* const run = elements.data() + at;
    for (size_t i = 0; i < size; ++i) codes[i] = encode(at + i, run[i]);
    for (size_t i = size; i % kPerByte != 0; ++i) codes[i] = 0;
    for (size_t i = 0; i < size; i += kPerByte) {
      uint32_t byte = 0;
      for (size_t k = 0; k < kPerByte; ++k) byte = byte << bits | codes[i + k];
      *out++ = static_cast<uint8_t>(byte);
    }
  }
}

template <typename EncodeElement>
void WriteCodes(uint32_t bits, absl::Span<float> elements, Tensor& payload,
                EncodeElement encode) {
  switch (bits) {
    case 1:
      return WriteCodes<1>(elements, payload, encode);
    case 2:
      return WriteCodes<2>(elements, payload, encode);
    case 4:
      return WriteCodes<4>(elements, payload, encode);
    default:
      return WriteCodes<8>(elements, payload, encode);
  }
}

// Their order is that of the magnitudes, and a total one, even of NaN.
uint32_t MagnitudeBits(float element) {
  return std::bit_cast<uint32_t>(element) & 0x7fffffff;
}

float LargestMagnitude(absl::Span<const float> elements) {
  uint32_t largest = 0;
  for (const float element : elements) {
    largest = std::max(largest, MagnitudeBits(element));
  }
  return std::bit_cast<float>(largest);
}

absl::StatusOr<EncodedTensor> EncodeTwoBit(float threshold, const Shape& shape,
                                           absl::Span<float> elements) {
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kTwoBit, .scale = threshold}, shape));
  WriteCodes<2>(elements, encoded.tensor, [=](size_t, float& element) {
    const bool is_high = element >= threshold;
    const bool is_low = element <= -threshold;
    element -= is_high ? threshold : is_low ? -threshold : 0.0f;
    return is_high ? 3u : is_low ? 2u : 0u;
  });
  return encoded;
}

// Elements for which `is_high` holds are +scale, the others -scale.
template <typename IsHigh>
absl::StatusOr<EncodedTensor> EncodeOneBit(float scale, const Shape& shape,
                                           absl::Span<float> elements,
                                           IsHigh is_high) {
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kOneBit, .scale = scale}, shape));
  WriteCodes<1>(elements, encoded.tensor, [=](size_t, float& element) {
    const bool is_set = is_high(element);
    element -= is_set ? scale : -scale;
    return is_set ? 1u : 0u;
  });
  return encoded;
}

absl::StatusOr<EncodedTensor> EncodeSign(const Shape& shape,
                                         absl::Span<float> elements) {
  double sum = 0;
  for (const float element : elements) sum += std::abs(element);
  const auto scale =
      static_cast<float>(sum / static_cast<double>(elements.size()));
  if (!(scale > 0)) return Zeros(shape);
  return EncodeOneBit(scale, shape, elements,
                      [](float element) { return element >= 0; });
}

// The places of the `count` largest magnitudes, rising.
template <typename Index>
std::vector<Index> LargestPlaces(size_t count,
                                 absl::Span<const float> elements) {
  std::vector<Index> places(elements.size());
  std::iota(places.begin(), places.end(), Index{0});
  std::nth_element(places.begin(), places.begin() + count - 1, places.end(),
                   [elements](Index a, Index b) {
                     const uint32_t left = MagnitudeBits(elements[a]);
                     const uint32_t right = MagnitudeBits(elements[b]);
                     return left != right ? left > right : a < b;
                   });
  places.resize(count);
  std::sort(places.begin(), places.end());
  return places;
}

template <typename Index>
void WriteTopK(absl::Span<float> elements, const Packing& packing,
               Tensor& payload) {
  const std::vector<Index> places =
      LargestPlaces<Index>(packing.count, elements);
  char* const out = payload.mutable_data();
  std::memcpy(out, places.data(), places.size() * sizeof(Index));
  auto* value = reinterpret_cast<float*>(out + TopKValuesOffset(packing));
  for (const Index place : places) {
    *value++ = std::exchange(elements[place], 0.0f);
  }
}

absl::StatusOr<EncodedTensor> EncodeTopK(double fraction, const Shape& shape,
                                         absl::Span<float> elements) {
  const auto count = std::max<uint64_t>(
      1,
      static_cast<uint64_t>(fraction * static_cast<double>(elements.size())));
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kTopK, .count = count}, shape));
  const Packing& packing = encoded.encoding->packing();
  if (IndexBytes(packing) == sizeof(uint64_t)) {
    WriteTopK<uint64_t>(elements, packing, encoded.tensor);
  } else {
    WriteTopK<uint32_t>(elements, packing, encoded.tensor);
  }
  return encoded;
}

absl::StatusOr<EncodedTensor> EncodeRandomK(double fraction, uint64_t seed,
                                            const Shape& shape,
                                            absl::Span<float> elements) {
  constexpr double kMaxBlock = 1 << 30;
  const auto block_size =
      static_cast<uint32_t>(std::min(std::round(1 / fraction), kMaxBlock));
  ASSIGN_OR_RETURN(EncodedTensor encoded,
                   Allocate({.kind = PackingKind::kRandomK,
                             .block_size = block_size,
                             .seed = seed},
                            shape));
  const Packing& packing = encoded.encoding->packing();
  auto* value = reinterpret_cast<float*>(encoded.tensor.mutable_data());
  for (uint64_t block = 0; block < NumBlocks(packing); ++block) {
    const uint64_t place = block * block_size + RandomKOffset(packing, block);
    *value++ = std::exchange(elements[place], 0.0f);
  }
  return encoded;
}

// From 0 to below 1, for element `i`.
float Chance(uint64_t i, uint64_t seed) {
  constexpr int kShift = 8;
  return static_cast<float>(Philox(i, seed) >> kShift) * 0x1p-24f;
}

// The number of whole levels in `levels`, or one more by chance.
uint32_t RoundedByChance(float levels, float chance) {
  const float whole = std::floor(levels);
  return static_cast<uint32_t>(whole) + (chance < levels - whole ? 1 : 0);
}

// Picks the level for `ratio`, from 0 to 1, between two powers of two.
uint32_t NaturalLevel(float ratio, uint32_t num_levels, float chance) {
  const int lowest = 1 - static_cast<int>(num_levels);  // exponent of level 1
  if (ratio < std::ldexp(1.0f, lowest)) {
    return RoundedByChance(std::ldexp(ratio, -lowest), chance);
  }
  const int exponent = std::ilogb(ratio);
  const float rest = std::ldexp(ratio, -exponent) - 1;  // of the way up
  return exponent + static_cast<int>(num_levels) + (chance < rest ? 1 : 0);
}

float Norm(const Compression& compression, absl::Span<const float> elements) {
  if (!compression.l2) return LargestMagnitude(elements);
  double squares = 0;
  for (const double element : elements) squares += element * element;
  return static_cast<float>(std::sqrt(squares));
}

absl::StatusOr<EncodedTensor> EncodeDithering(const Compression& compression,
                                              uint64_t seed, const Shape& shape,
                                              absl::Span<float> elements) {
  const float norm = Norm(compression, elements);
  if (!(norm > 0)) return Zeros(shape);
  const uint32_t num_levels = (1u << (compression.bits - 1)) - 1;
  const float step = norm / static_cast<float>(num_levels);
  ASSIGN_OR_RETURN(EncodedTensor encoded,
                   Allocate({.kind = PackingKind::kDithering,
                             .bits = static_cast<uint8_t>(compression.bits),
                             .is_natural = compression.natural,
                             .scale = norm},
                            shape));
  const auto encode = [&](size_t i, float& element) {
    const float ratio = std::min(std::abs(element) / norm, 1.0f);
    const float chance = Chance(i, seed);
    const uint32_t level = std::min(
        compression.natural
            ? NaturalLevel(ratio, num_levels, chance)
            : RoundedByChance(ratio * static_cast<float>(num_levels), chance),
        num_levels);
    const int exponent = static_cast<int>(level) - static_cast<int>(num_levels);
    const float magnitude = !compression.natural
                                ? step * static_cast<float>(level)
                            : level == 0 ? 0.0f
                                         : norm * std::ldexp(1.0f, exponent);
    const bool is_negative = std::signbit(element);
    element -= is_negative ? -magnitude : magnitude;
    return uint32_t{is_negative} << (compression.bits - 1) | level;
  };
  WriteCodes(compression.bits, elements, encoded.tensor, encode);
  return encoded;
}

// The dtypes of elements: to the bits and back. What is narrowed is at most the
// largest number.
struct F16 {
  static constexpr float kLargest = 65504;
  static uint16_t Narrow(float x) { return F32ToF16(x); }
  static float Widen(uint16_t bits) { return F16ToF32(bits); }
};

struct BF16 {
  static constexpr float kLargest = std::bit_cast<float>(0x7f7f0000u);
  static uint16_t Narrow(float x) { return F32ToBF16(x); }
  static float Widen(uint16_t bits) { return BF16ToF32(bits); }
};

struct F8E4M3FN {
  static constexpr float kLargest = 448;
  static uint8_t Narrow(float x) { return F32ToF8E4M3(x); }
  static float Widen(uint8_t bits) { return F8E4M3ToF32(bits); }
};

struct F8E5M2 {
  static constexpr float kLargest = 57344;
  static uint8_t Narrow(float x) { return F32ToF8E5M2(x); }
  static float Widen(uint8_t bits) { return F8E5M2ToF32(bits); }
};

struct I8 {
  static constexpr float kLargest = 127;
  // Adding and subtracting this rounds to a whole number, to nearest even.
  static constexpr float kRounder = 0x1.8p23f;
  static int8_t Narrow(float x) {
    return static_cast<int8_t>(static_cast<int>((x + kRounder) - kRounder));
  }
  static float Widen(int8_t bits) { return bits; }
};

// Calls `visit` with a value of the element type of that dtype.
template <typename Visitor>
void VisitElementType(DType dtype, Visitor visit) {
  switch (dtype) {
    case DType::kF16:
      return visit(F16());
    case DType::kBF16:
      return visit(BF16());
    case DType::kF8E4M3FN:
      return visit(F8E4M3FN());
    case DType::kF8E5M2:
      return visit(F8E5M2());
    default:
      return visit(I8());
  }
}

// Narrows each element over `scale`; leaves there what that lacks.
template <typename Element>
void WriteElements(float scale, absl::Span<float> elements, char* payload) {
  using Bits = decltype(Element::Narrow(0));
  auto* const out = reinterpret_cast<Bits*>(payload);
  float* const in = elements.data();
  const size_t size = elements.size();
  for (size_t i = 0; i < size; ++i) {
    const float x = in[i] / scale;
    const float above = x < -Element::kLargest ? -Element::kLargest : x;
    const Bits bits =
        Element::Narrow(above > Element::kLargest ? Element::kLargest : above);
    in[i] -= scale * Element::Widen(bits);
    out[i] = bits;
  }
}

template <typename Element>
void WriteBlocks(const Packing& packing, absl::Span<float> elements,
                 char* payload) {
  auto* scale = reinterpret_cast<float*>(payload);
  char* const out = payload + BlockElementsOffset(packing);
  for (size_t at = 0; at < elements.size(); at += packing.block_size) {
    const absl::Span<float> block = elements.subspan(at, packing.block_size);
    const float exact = LargestMagnitude(block) / Element::kLargest;
    *scale = exact > 0 ? exact : 1;
    WriteElements<Element>(*scale++, block, out + at);
  }
}

absl::StatusOr<EncodedTensor> EncodeBlocks(const Compression& compression,
                                           const Shape& shape,
                                           absl::Span<float> elements) {
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kBlocks,
                .element_dtype = static_cast<uint8_t>(compression.dtype),
                .block_size = compression.block_size},
               shape));
  VisitElementType(compression.dtype, [&](auto type) {
    WriteBlocks<decltype(type)>(encoded.encoding->packing(), elements,
                                encoded.tensor.mutable_data());
  });
  return encoded;
}

absl::StatusOr<EncodedTensor> Cast(DType dtype, const Shape& shape,
                                   absl::Span<float> elements) {
  EncodedTensor encoded;
  ASSIGN_OR_RETURN(encoded.tensor, Tensor::Allocate(dtype, shape));
  VisitElementType(dtype, [&](auto type) {
    WriteElements<decltype(type)>(/*scale=*/1, elements,
                                  encoded.tensor.mutable_data());
  });
  return encoded;
}

}  // namespace

absl::StatusOr<EncodedTensor> Encode(const Compression& compression,
                                     const Shape& shape, uint64_t seed,
                                     absl::Span<float> elements) {
  if (elements.empty()) return Zeros(shape);
  switch (compression.kind) {
    case Kind::kTwoBit:
      return EncodeTwoBit(compression.threshold, shape, elements);
    case Kind::kOneBit:
      return EncodeOneBit(/*scale=*/1, shape, elements,
                          [threshold = compression.threshold](float element) {
                            return element > threshold;
                          });
    case Kind::kSign:
      return EncodeSign(shape, elements);
    case Kind::kTopK:
      return EncodeTopK(compression.fraction, shape, elements);
    case Kind::kRandomK:
      return EncodeRandomK(compression.fraction, seed, shape, elements);
    case Kind::kDithering:
      return EncodeDithering(compression, seed, shape, elements);
    case Kind::kBlocks:
      return EncodeBlocks(compression, shape, elements);
    case Kind::kCast:
      return Cast(compression.dtype, shape, elements);
    case Kind::kNone:
      break;
  }
  return absl::InternalError("no compression to encode by");
}

}  // namespace tensorkv
