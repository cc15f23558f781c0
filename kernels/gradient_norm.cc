#include "kernels/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/ops/unpack.h"
#include "tensor/float_formats.h"

namespace tensorkv {
namespace {

// Elements that are summed side by side, and how many are summed before they
// are added to the rest: long sums lose digits.
constexpr int kLanes = 16;
constexpr uint64_t kBlock = uint64_t{1} << 16;

// Returns the sum of at(i)^2 for `count` elements.
template <typename At>
double SumOfSquares(uint64_t count, const At& at) {
  double sum = 0;
  for (uint64_t first = 0; first < count; first += kBlock) {
    const uint64_t end = std::min(count, first + kBlock);
    double lanes[kLanes] = {};
    uint64_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const double element = at(i + lane);
        lanes[lane] += element * element;
      }
    }
    for (int lane = 0; i < end; ++i, ++lane) lanes[lane] += at(i) * at(i);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    sum += lanes[0];
  }
  return sum;
}

// A finite sum has finite elements alone. Where finite elements have another,
// it is taken once more of what they are of the largest.
template <typename At>
GradientNorm NormOfAll(uint64_t count, const At& at) {
  const double sum = SumOfSquares(count, at);
  if (std::isfinite(sum)) return {.norm = std::sqrt(sum)};
  double largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double magnitude = std::abs(static_cast<double>(at(i)));
    if (!std::isfinite(magnitude)) return {.is_finite = false, .norm = sum};
    largest = std::max(largest, magnitude);
  }
  const double scaled = SumOfSquares(
      count, [&](uint64_t i) -> double { return at(i) / largest; });
  return {.norm = largest * std::sqrt(scaled)};
}

// Elements at any address, as doubles.
template <typename Stored, auto kToFloat>
struct ElementsAt {
  double operator()(uint64_t i) const {
    Stored element;
    std::memcpy(&element, data + i * sizeof(element), sizeof(element));
    return kToFloat(element);
  }
  const char* data;
};

constexpr float AsF32(float value) { return value; }
constexpr double AsF64(double value) { return value; }

template <typename Stored, auto kToFloat>
GradientNorm NormOfStored(TensorView elements) {
  return NormOfAll(
      static_cast<uint64_t>(elements.num_elements),
      ElementsAt<Stored, kToFloat>{static_cast<const char*>(elements.data)});
}

template <typename Stored, auto kToFloat, auto kFromFloat>
void ScaleStored(double factor, MutableTensorView elements) {
  auto* const data = static_cast<Stored*>(elements.data);
  for (int64_t i = 0; i < elements.num_elements; ++i) {
    data[i] = kFromFloat(kToFloat(data[i]) * factor);
  }
}

constexpr float RoundToF32(double value) { return static_cast<float>(value); }
constexpr uint16_t RoundToF16(double value) {
  return F32ToF16(RoundToF32(value));
}
constexpr uint16_t RoundToBF16(double value) {
  return F32ToBF16(RoundToF32(value));
}
constexpr uint8_t RoundToF8E4M3(double value) {
  return F32ToF8E4M3(RoundToF32(value));
}
constexpr uint8_t RoundToF8E5M2(double value) {
  return F32ToF8E5M2(RoundToF32(value));
}

// REQUIRES: HasValues(packing). They have the dtype of what they decode to.
MutableTensorView ValuesOf(const Packing& packing, char* payload) {
  const auto dtype = static_cast<DType>(packing.element_dtype);
  if (packing.kind == PackingKind::kRandomK) {
    return {dtype, static_cast<int64_t>(NumBlocks(packing)), payload};
  }
  return {dtype, static_cast<int64_t>(packing.count),
          payload + TopKValuesOffset(packing)};
}

float ScaledScale(double factor, float scale) {
  return std::max(RoundToF32(scale * factor),
                  std::numeric_limits<float>::denorm_min());
}

}  // namespace

GradientNorm NormOf(TensorView elements) {
  switch (elements.dtype) {
    case DType::kF32:
      return NormOfStored<float, AsF32>(elements);
    case DType::kF64:
      return NormOfStored<double, AsF64>(elements);
    case DType::kF16:
      return NormOfStored<uint16_t, F16ToF32>(elements);
    case DType::kBF16:
      return NormOfStored<uint16_t, BF16ToF32>(elements);
    case DType::kF8E4M3FN:
      return NormOfStored<uint8_t, F8E4M3ToF32>(elements);
    default:
      return NormOfStored<uint8_t, F8E5M2ToF32>(elements);
  }
}

GradientNorm NormOf(const Packing& packing, const char* payload) {
  if (HasValues(packing)) {
    return NormOf(ValuesOf(packing, const_cast<char*>(payload)));
  }
  if (packing.kind == PackingKind::kOneBit) {
    return {.norm = packing.scale *
                    std::sqrt(static_cast<double>(packing.num_elements))};
  }
  return NormOfAll(packing.num_elements, [&](uint64_t i) -> double {
    return ops::UnpackElement<float>(packing, payload, i);
  });
}

void Scale(double factor, MutableTensorView elements) {
  switch (elements.dtype) {
    case DType::kF32:
      return ScaleStored<float, AsF32, RoundToF32>(factor, elements);
    case DType::kF64:
      return ScaleStored<double, AsF64, AsF64>(factor, elements);
    case DType::kF16:
      return ScaleStored<uint16_t, F16ToF32, RoundToF16>(factor, elements);
    case DType::kBF16:
      return ScaleStored<uint16_t, BF16ToF32, RoundToBF16>(factor, elements);
    case DType::kF8E4M3FN:
      return ScaleStored<uint8_t, F8E4M3ToF32, RoundToF8E4M3>(factor, elements);
    default:
      return ScaleStored<uint8_t, F8E5M2ToF32, RoundToF8E5M2>(factor, elements);
  }
}

void Scale(double factor, Packing& packing, char* payload) {
  if (HasValues(packing)) return Scale(factor, ValuesOf(packing, payload));
  if (packing.kind != PackingKind::kBlocks) {
    packing.scale = ScaledScale(factor, packing.scale);
    return;
  }
  auto* const scales = reinterpret_cast<float*>(payload);
  for (uint64_t i = 0; i < NumBlocks(packing); ++i) {
    scales[i] = ScaledScale(factor, scales[i]);
  }
}

}  // namespace tensorkv
