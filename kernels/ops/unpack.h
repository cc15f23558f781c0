// Elements of packed contributions (tensor/packing.h), one at a time.

#ifndef TENSORKV_KERNELS_OPS_UNPACK_H_
#define TENSORKV_KERNELS_OPS_UNPACK_H_

#include <stdint.h>

#include <bit>

#include "kernels/ops/host_device.h"
#include "tensor/float_formats.h"
#include "tensor/packing.h"

namespace tensorkv::ops {

// The numbers of DType (tensor/dtype.h).
enum class PackedDType : uint8_t {
  kF32 = 1,
  kF64 = 2,
  kF16 = 3,
  kBF16 = 4,
  kF8E4M3FN = 5,
  kF8E5M2 = 6,
  kI8 = 7,
};

// Returns element `i` of an array of that dtype, the number of a PackedDType,
// as a T.
template <typename T>
HOST_DEVICE T ElementAt(uint8_t dtype, const void* elements, uint64_t i) {
  switch (static_cast<PackedDType>(dtype)) {
    case PackedDType::kF32:
      return static_cast<T>(static_cast<const float*>(elements)[i]);
    case PackedDType::kF64:
      return static_cast<T>(static_cast<const double*>(elements)[i]);
    case PackedDType::kF16:
      return F16ToF32(static_cast<const uint16_t*>(elements)[i]);
    case PackedDType::kBF16:
      return BF16ToF32(static_cast<const uint16_t*>(elements)[i]);
    case PackedDType::kF8E4M3FN:
      return F8E4M3ToF32(static_cast<const uint8_t*>(elements)[i]);
    case PackedDType::kF8E5M2:
      return F8E5M2ToF32(static_cast<const uint8_t*>(elements)[i]);
    default:
      return static_cast<T>(static_cast<const int8_t*>(elements)[i]);
  }
}

// Returns `magnitude` with a minus sign if `is_negative` is 1; else that is 0.
HOST_DEVICE float WithSign(float magnitude, uint32_t is_negative) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | is_negative
                                                                       << 31);
}

// Returns code `i` of an array of codes of `bits` bits (1, 2, 4 or 8), of which
// the first is in the highest bits of the first byte.
HOST_DEVICE uint32_t CodeAt(const void* codes, uint32_t bits, uint64_t i) {
  const uint64_t per_byte = 8 / bits;
  const uint32_t byte = static_cast<const uint8_t*>(codes)[i / per_byte];
  const auto place = static_cast<uint32_t>(i % per_byte);
  return (byte >> (8 - bits * (place + 1))) & ((1u << bits) - 1);
}

// Returns the value of a code of the 2-bit packing: `scale`, the threshold, for
// 3, -scale for 2, and 0 for 0 and 1.
HOST_DEVICE float TwoBitValue(float scale, uint32_t code) {
  return code < 2 ? 0.0f : WithSign(scale, code == 2);
}

// Returns the value of a code of the 1-bit packing: `scale` for 1, -scale for
// 0.
HOST_DEVICE float OneBitValue(float scale, uint32_t code) {
  return WithSign(scale, code == 0);
}

// Returns the difference of two levels of dithering that is not natural.
HOST_DEVICE float DitheringStep(const Packing& packing) {
  return packing.scale / static_cast<float>((1 << (packing.bits - 1)) - 1);
}

// Returns 2^(level - num_levels), or 0 where the difference is -127.
HOST_DEVICE float PowerOfLevel(uint32_t level, uint32_t num_levels) {
  return std::bit_cast<float>((127 + level - num_levels) << 23);
}

// Return the value of a code of dithering: its highest bit is the sign, the
// others are the level. `step` is DitheringStep.
HOST_DEVICE float LinearValue(const Packing& packing, float step,
                              uint32_t code) {
  const uint32_t num_levels = (1u << (packing.bits - 1)) - 1;
  const int level = static_cast<int>(code & num_levels);
  return WithSign(step * static_cast<float>(level), code >> (packing.bits - 1));
}

HOST_DEVICE float NaturalValue(const Packing& packing, uint32_t code) {
  const uint32_t num_levels = (1u << (packing.bits - 1)) - 1;
  const uint32_t level = code & num_levels;
  const float power = packing.scale * PowerOfLevel(level, num_levels);
  return WithSign(level == 0 ? 0.0f : power, code >> (packing.bits - 1));
}

HOST_DEVICE float DitheringValue(const Packing& packing, float step,
                                 uint32_t code) {
  return packing.is_natural ? NaturalValue(packing, code)
                            : LinearValue(packing, step, code);
}

// Returns the position of the first of the sorted `indices` that is not below
// `element`, or `count` if there is none.
template <typename Index>
HOST_DEVICE uint64_t LowerBound(const Index* indices, uint64_t count,
                                uint64_t element) {
  uint64_t first = 0;
  while (count > 0) {
    const uint64_t half = count / 2;
    const bool is_below = indices[first + half] < element;
    first = is_below ? first + half + 1 : first;
    count = is_below ? count - half - 1 : half;
  }
  return first;
}

// Returns element `i` of what a payload of top-k decodes to.
template <typename T, typename Index>
HOST_DEVICE T TopKElement(const Packing& packing, const char* payload,
                          uint64_t i) {
  const auto* const indices = reinterpret_cast<const Index*>(payload);
  const uint64_t place = LowerBound(indices, packing.count, i);
  if (place == packing.count || indices[place] != i) return T();
  return ElementAt<T>(packing.element_dtype,
                      payload + TopKValuesOffset(packing), place);
}

// Returns element `i` of what a payload of blocks decodes to.
template <typename T>
HOST_DEVICE T BlockElement(const Packing& packing, const char* payload,
                           uint64_t i) {
  const float scale =
      reinterpret_cast<const float*>(payload)[i / packing.block_size];
  return scale * ElementAt<float>(packing.element_dtype,
                                  payload + BlockElementsOffset(packing), i);
}

// Returns element `i` of what `payload` decodes to. T is float or double.
// REQUIRES: the payload has been checked against the packing.
template <typename T>
HOST_DEVICE T UnpackElement(const Packing& packing, const void* payload,
                            uint64_t i) {
  const char* const bytes = static_cast<const char*>(payload);
  switch (packing.kind) {
    case PackingKind::kTwoBit:
      return TwoBitValue(packing.scale, CodeAt(bytes, 2, i));
    case PackingKind::kOneBit:
      return OneBitValue(packing.scale, CodeAt(bytes, 1, i));
    case PackingKind::kTopK:
      return IndexBytes(packing) == sizeof(uint64_t)
                 ? TopKElement<T, uint64_t>(packing, bytes, i)
                 : TopKElement<T, uint32_t>(packing, bytes, i);
    case PackingKind::kRandomK: {
      const uint64_t block = i / packing.block_size;
      return i % packing.block_size == RandomKOffset(packing, block)
                 ? ElementAt<T>(packing.element_dtype, bytes, block)
                 : T();
    }
    case PackingKind::kDithering:
      return DitheringValue(packing, DitheringStep(packing),
                            CodeAt(bytes, packing.bits, i));
    case PackingKind::kBlocks:
      return BlockElement<T>(packing, bytes, i);
  }
  return T();
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_UNPACK_H_
