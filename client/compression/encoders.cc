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
template <typename EncodeElement>
void WriteCodes(uint32_t bits, absl::Span<float> elements, Tensor& payload,
                EncodeElement encode) {
  const uint32_t per_byte = 8 / bits;
  auto* out = payload.mutable_elements<uint8_t>().data();
  for (size_t i = 0; i < elements.size(); ++out) {
    uint32_t byte = 0;
    for (uint32_t k = 0; k < per_byte; ++k, ++i) {
      const uint32_t code = i < elements.size() ? encode(i, elements[i]) : 0;
      byte = byte << bits | code;
    }
    *out = static_cast<uint8_t>(byte);
  }
}

float LargestMagnitude(absl::Span<const float> elements) {
  float largest = 0;
  for (const float element : elements) {
    largest = std::max(largest, std::abs(element));
  }
  return largest;
}

absl::StatusOr<EncodedTensor> EncodeTwoBit(float threshold, const Shape& shape,
                                           absl::Span<float> elements) {
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kTwoBit, .scale = threshold}, shape));
  WriteCodes(2, elements, encoded.tensor, [=](size_t, float& element) {
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
  WriteCodes(1, elements, encoded.tensor, [=](size_t, float& element) {
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
                     const float left = std::abs(elements[a]);
                     const float right = std::abs(elements[b]);
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

// Of `ratio`, from 0 to 1, between two powers of two.
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

// A float format or i8, for one element.
struct ElementCodec {
  float largest;
  // To the bits and back; the element is at most the largest.
  uint32_t (*narrow)(float);
  float (*widen)(uint32_t);
};

ElementCodec CodecOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {65504, [](float x) -> uint32_t { return F32ToF16(x); },
              [](uint32_t bits) { return F16ToF32(bits); }};
    case DType::kBF16:
      return {std::bit_cast<float>(0x7f7f0000u),
              [](float x) -> uint32_t { return F32ToBF16(x); },
              [](uint32_t bits) { return BF16ToF32(bits); }};
    case DType::kF8E4M3FN:
      return {448, [](float x) -> uint32_t { return F32ToF8E4M3(x); },
              [](uint32_t bits) { return F8E4M3ToF32(bits); }};
    case DType::kF8E5M2:
      return {57344, [](float x) -> uint32_t { return F32ToF8E5M2(x); },
              [](uint32_t bits) { return F8E5M2ToF32(bits); }};
    default:
      return {127,
              [](float x) -> uint32_t {
                return static_cast<uint8_t>(static_cast<int8_t>(std::rint(x)));
              },
              [](uint32_t bits) {
                return static_cast<float>(static_cast<int8_t>(bits));
              }};
  }
}

// `Bits` of each element over `scale`; leaves there what they lack.
template <typename Bits>
void WriteElements(const ElementCodec& codec, float scale,
                   absl::Span<float> elements, Bits* out) {
  for (float& element : elements) {
    const float scaled = scale == 1 ? element : element / scale;
    const uint32_t bits =
        codec.narrow(std::clamp(scaled, -codec.largest, codec.largest));
    element -= scale * codec.widen(bits);
    *out++ = static_cast<Bits>(bits);
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
  const Packing& packing = encoded.encoding->packing();
  const ElementCodec codec = CodecOf(compression.dtype);
  char* const payload = encoded.tensor.mutable_data();
  auto* scale = reinterpret_cast<float*>(payload);
  auto* out =
      reinterpret_cast<uint8_t*>(payload + BlockElementsOffset(packing));
  for (size_t at = 0; at < elements.size(); at += packing.block_size) {
    const absl::Span<float> block = elements.subspan(at, packing.block_size);
    const float exact = LargestMagnitude(block) / codec.largest;
    *scale = exact > 0 ? exact : 1;
    WriteElements(codec, *scale++, block, out + at);
  }
  return encoded;
}

absl::StatusOr<EncodedTensor> Cast(DType dtype, const Shape& shape,
                                   absl::Span<float> elements) {
  EncodedTensor encoded;
  ASSIGN_OR_RETURN(encoded.tensor, Tensor::Allocate(dtype, shape));
  const ElementCodec codec = CodecOf(dtype);
  char* const out = encoded.tensor.mutable_data();
  if (SizeOf(dtype) == sizeof(uint16_t)) {
    WriteElements(codec, 1, elements, reinterpret_cast<uint16_t*>(out));
  } else {
    WriteElements(codec, 1, elements, reinterpret_cast<uint8_t*>(out));
  }
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
