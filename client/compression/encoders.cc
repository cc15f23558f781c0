#include "client/compression/encoders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/compression/element_runs.h"
#include "client/compression/encoder_loops.h"
#include "tensor/packing.h"

namespace tensorkv {
namespace {

using Kind = Compression::Kind;

absl::StatusOr<Tensor> AllocateTensor(DType dtype, const Shape& shape,
                                      BufferPool& memory) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::WithoutData(dtype, shape));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, memory.Allocate(tensor.size_bytes()));
  tensor.SetBuffer(std::move(buffer), 0);
  return tensor;
}

// Returns the bytes of a payload that a table and what pads it take.
size_t TableBytes(const Packing& packing) {
  switch (packing.kind) {
    case PackingKind::kTopK:
      return TopKValuesOffset(packing);
    case PackingKind::kBlocks:
      return BlockElementsOffset(packing);
    default:
      return 0;
  }
}

// Allocates a payload, and makes its encoding. What pads the payload is zero,
// the rest is to be written.
absl::StatusOr<EncodedTensor> Allocate(const Packing& packing,
                                       const Shape& shape, BufferPool& memory) {
  EncodedTensor encoded;
  ASSIGN_OR_RETURN(encoded.encoding,
                   Encoding::Create(packing, DType::kF32, shape));
  const int64_t bytes = encoded.encoding->payload_bytes();
  ASSIGN_OR_RETURN(encoded.tensor, AllocateTensor(DType::kU8, {bytes}, memory));
  if (bytes > 0) {
    std::memset(encoded.tensor.mutable_data(), 0,
                TableBytes(encoded.encoding->packing()));
  }
  return encoded;
}

absl::StatusOr<EncodedTensor> Zeros(const Shape& shape, BufferPool& memory) {
  return Allocate({.kind = PackingKind::kTopK}, shape, memory);
}

// Their order is that of the magnitudes, and a total one, even of NaN.
uint32_t MagnitudeBits(float element) {
  return std::bit_cast<uint32_t>(element) & 0x7fffffff;
}

// No scale or norm is made of more: a 127th of the largest float is rounded up,
// and 127 times that is infinite. Elements above it are clipped to it.
constexpr float kLargestScaled = 0x1.fffffcp127f;

// Returns the largest magnitude, clipped to that. REQUIRES: finite elements.
float LargestScaled(absl::Span<const float> elements) {
  return std::min(kLargestScaled, SupportedEncoderLoops().largest_magnitude(
                                      elements.data(), elements.size()));
}

// Elements above `threshold` are +scale, the others -scale.
absl::StatusOr<EncodedTensor> EncodeOneBit(float threshold, float scale,
                                           const Shape& shape,
                                           absl::Span<float> elements,
                                           BufferPool& memory) {
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kOneBit, .scale = scale}, shape, memory));
  SupportedEncoderLoops().write_one_bit(
      threshold, scale, elements.data(), elements.size(),
      encoded.tensor.mutable_elements<uint8_t>().data());
  return encoded;
}

absl::StatusOr<EncodedTensor> EncodeSign(const Shape& shape,
                                         absl::Span<float> elements,
                                         BufferPool& memory) {
  // Zeros of both signs are above it, and no negative number is. Where threads
  // take denormal numbers for zeros, zeros are not.
  constexpr float kBelowZero = -std::numeric_limits<float>::denorm_min();
  double sum = 0;
  for (const float element : elements) sum += std::abs(element);
  const auto scale =
      static_cast<float>(sum / static_cast<double>(elements.size()));
  if (!(scale > 0)) return Zeros(shape, memory);
  return EncodeOneBit(kBelowZero, scale, shape, elements, memory);
}

// The least of the `count` largest magnitudes, and how many of them equal it.
struct LeastOfLargest {
  uint32_t bits = 0;
  size_t num_equal = 0;
};

// A bin has the magnitudes that share their exponent and the first three bits
// of the fraction.
constexpr int kBinShift = 20;
constexpr size_t kNumBins = 0x80000000 >> kBinShift;

// The bin with the last of the `count` largest magnitudes, and how many of them
// are in higher ones.
struct LastBin {
  uint32_t bin = kNumBins - 1;
  size_t num_above = 0;
};
LastBin FindLastBin(size_t count, absl::Span<const float> elements) {
  // Neighbours are often in one bin: it would wait for its last addition.
  std::array<uint64_t, kNumBins> even = {};
  std::array<uint64_t, kNumBins> odd = {};
  size_t i = 0;
  for (; i + 1 < elements.size(); i += 2) {
    ++even[MagnitudeBits(elements[i]) >> kBinShift];
    ++odd[MagnitudeBits(elements[i + 1]) >> kBinShift];
  }
  if (i < elements.size()) ++even[MagnitudeBits(elements[i]) >> kBinShift];
  LastBin last;
  for (;; --last.bin) {
    const size_t size = even[last.bin] + odd[last.bin];
    if (last.num_above + size >= count) return last;
    last.num_above += size;
  }
}

// Returns the least of the `count` largest of `magnitudes`, whose order it
// changes.
LeastOfLargest FindLeast(size_t count, std::vector<uint32_t>& magnitudes) {
  const auto least = magnitudes.begin() + static_cast<ptrdiff_t>(count) - 1;
  std::nth_element(magnitudes.begin(), least, magnitudes.end(),
                   std::greater<>());
  return {.bits = *least,
          .num_equal = static_cast<size_t>(
              std::count(magnitudes.begin(), least + 1, *least))};
}

// Returns the places of the `count` largest magnitudes, rising; of equal ones
// the first are taken.
template <typename Index>
std::vector<Index> LargestPlaces(size_t count,
                                 absl::Span<const float> elements) {
  const LastBin last = FindLastBin(count, elements);
  std::vector<Index> places;  // of all in these bins
  std::vector<uint32_t> in_last_bin;
  for (size_t i = 0; i < elements.size(); ++i) {
    const uint32_t bits = MagnitudeBits(elements[i]);
    const uint32_t bin = bits >> kBinShift;
    if (bin < last.bin) continue;
    places.push_back(static_cast<Index>(i));
    if (bin == last.bin) in_last_bin.push_back(bits);
  }
  const LeastOfLargest least = FindLeast(count - last.num_above, in_last_bin);
  size_t num_equal = least.num_equal;
  size_t num_kept = 0;
  for (const Index place : places) {
    const uint32_t bits = MagnitudeBits(elements[place]);
    if (bits < least.bits) continue;
    if (bits == least.bits) {
      if (num_equal == 0) continue;
      --num_equal;
    }
    places[num_kept++] = place;
  }
  places.resize(num_kept);
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
                                         absl::Span<float> elements,
                                         BufferPool& memory) {
  const auto count = std::max<uint64_t>(
      1,
      static_cast<uint64_t>(fraction * static_cast<double>(elements.size())));
  ASSIGN_OR_RETURN(
      EncodedTensor encoded,
      Allocate({.kind = PackingKind::kTopK, .count = count}, shape, memory));
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
                                            absl::Span<float> elements,
                                            BufferPool& memory) {
  constexpr double kMaxBlock = 1 << 30;
  const auto block_size =
      static_cast<uint32_t>(std::min(std::round(1 / fraction), kMaxBlock));
  ASSIGN_OR_RETURN(EncodedTensor encoded,
                   Allocate({.kind = PackingKind::kRandomK,
                             .block_size = block_size,
                             .seed = seed},
                            shape, memory));
  const Packing& packing = encoded.encoding->packing();
  auto* value = reinterpret_cast<float*>(encoded.tensor.mutable_data());
  for (uint64_t block = 0; block < NumBlocks(packing); ++block) {
    const uint64_t place = block * block_size + RandomKOffset(packing, block);
    *value++ = std::exchange(elements[place], 0.0f);
  }
  return encoded;
}

float Norm(const Compression& compression, absl::Span<const float> elements) {
  if (!compression.l2) return LargestScaled(elements);
  double squares = 0;
  for (const double element : elements) squares += element * element;
  return static_cast<float>(
      std::min<double>(kLargestScaled, std::sqrt(squares)));
}

absl::StatusOr<EncodedTensor> EncodeDithering(const Compression& compression,
                                              uint64_t seed, const Shape& shape,
                                              absl::Span<float> elements,
                                              BufferPool& memory) {
  const float norm = Norm(compression, elements);
  if (!(norm > 0)) return Zeros(shape, memory);
  ASSIGN_OR_RETURN(EncodedTensor encoded,
                   Allocate({.kind = PackingKind::kDithering,
                             .bits = static_cast<uint8_t>(compression.bits),
                             .is_natural = compression.natural,
                             .scale = norm},
                            shape, memory));
  SupportedEncoderLoops().write_dithered(
      {compression.bits, compression.natural, norm, seed}, elements.data(),
      elements.size(), encoded.tensor.mutable_elements<uint8_t>().data());
  return encoded;
}

// Narrows the elements and leaves in each what its narrow form lacks.
void WriteElements(NarrowFormat format, float scale, absl::Span<float> elements,
                   char* payload) {
  SupportedEncoderLoops().narrow[static_cast<int>(format)](
      scale, elements.data(), elements.size(), payload);
}

// Writes the blocks of a run of elements from `first` on.
void WriteBlocks(NarrowFormat format, const Packing& packing, size_t first,
                 absl::Span<float> run, char* payload) {
  auto* scale = reinterpret_cast<float*>(payload) + first / packing.block_size;
  char* const out = payload + BlockElementsOffset(packing) + first;
  for (size_t at = 0; at < run.size(); at += packing.block_size) {
    const absl::Span<float> block = run.subspan(at, packing.block_size);
    const float exact = LargestScaled(block) / LargestOf(format);
    *scale = exact > 0 ? exact : 1;
    WriteElements(format, *scale++, block, out + at);
  }
}

absl::StatusOr<EncodedTensor> EncodeInOneRun(const Compression& compression,
                                             const Shape& shape,
                                             absl::Span<float> elements,
                                             BufferPool& memory) {
  ASSIGN_OR_RETURN(EncodedTensor encoded,
                   AllocateEncoded(compression, shape, memory));
  EncodeRun(compression, /*first=*/0, elements, encoded);
  return encoded;
}

}  // namespace

absl::StatusOr<EncodedTensor> Encode(const Compression& compression,
                                     const Shape& shape, uint64_t seed,
                                     absl::Span<float> elements,
                                     BufferPool& payloads) {
  if (elements.empty()) return Zeros(shape, payloads);
  switch (compression.kind) {
    case Kind::kSign:
      return EncodeSign(shape, elements, payloads);
    case Kind::kTopK:
      return EncodeTopK(compression.fraction, shape, elements, payloads);
    case Kind::kRandomK:
      return EncodeRandomK(compression.fraction, seed, shape, elements,
                           payloads);
    case Kind::kDithering:
      return EncodeDithering(compression, seed, shape, elements, payloads);
    case Kind::kNone:
      return absl::InternalError("no compression to encode by");
    case Kind::kTwoBit:
    case Kind::kOneBit:
    case Kind::kBlocks:
    case Kind::kCast:
      return EncodeInOneRun(compression, shape, elements, payloads);
  }
  return absl::InternalError("unknown compression");
}

bool EncodesInRuns(const Compression& compression, size_t num_elements) {
  switch (compression.kind) {
    case Kind::kTwoBit:
    case Kind::kOneBit:
    case Kind::kCast:
      return true;
    case Kind::kBlocks:
      return num_elements % compression.block_size == 0;
    default:
      return false;
  }
}

absl::StatusOr<EncodedTensor> AllocateEncoded(const Compression& compression,
                                              const Shape& shape,
                                              BufferPool& payloads) {
  switch (compression.kind) {
    case Kind::kTwoBit:
      return Allocate(
          {.kind = PackingKind::kTwoBit, .scale = compression.threshold}, shape,
          payloads);
    case Kind::kOneBit:
      return Allocate({.kind = PackingKind::kOneBit, .scale = kOneBitScale},
                      shape, payloads);
    case Kind::kBlocks:
      return Allocate({.kind = PackingKind::kBlocks,
                       .element_dtype = static_cast<uint8_t>(compression.dtype),
                       .block_size = compression.block_size},
                      shape, payloads);
    default: {
      EncodedTensor encoded;
      ASSIGN_OR_RETURN(encoded.tensor,
                       AllocateTensor(compression.dtype, shape, payloads));
      return encoded;
    }
  }
}

void EncodeRun(const Compression& compression, size_t first,
               absl::Span<float> run, EncodedTensor& encoded) {
  const EncoderLoops& loops = SupportedEncoderLoops();
  const NarrowFormat format = FormatOf(compression.dtype);
  char* const payload = encoded.tensor.mutable_data();
  auto* const codes = reinterpret_cast<uint8_t*>(payload);
  switch (compression.kind) {
    case Kind::kTwoBit:
      return loops.write_two_bit(compression.threshold, run.data(), run.size(),
                                 codes + first / 4);
    case Kind::kOneBit:
      return loops.write_one_bit(compression.threshold, kOneBitScale,
                                 run.data(), run.size(), codes + first / 8);
    case Kind::kBlocks:
      return WriteBlocks(format, encoded.encoding->packing(), first, run,
                         payload);
    default:
      return WriteElements(format, /*scale=*/1, run,
                           payload + first * SizeOf(compression.dtype));
  }
}

}  // namespace tensorkv
