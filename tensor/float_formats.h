// Conversions between f32 and the 16-bit and 8-bit float formats.
//
// All round to nearest, ties to even. Values too large become infinity, or NaN
// in f8e4m3fn, which has no infinity (so PyTorch and ml_dtypes do; saturation
// is left to the caller). In f8e4m3fn up to 464, the tie between the largest
// value 448 and the NaN above it, rounds to 448. Subnormals and the sign of
// zero are kept. A NaN stays a NaN of the same sign, becomes quiet (only bf16
// to f32 leaves it as it is) and keeps the leading bits of its payload.
//
// Formats: f16, IEEE 754 binary16 · bf16, the upper half of an f32 · f8e4m3fn
// ("FN") and f8e5m2, OCP 8-bit Floating Point Specification 1.0.
//
// Pure functions of bit patterns, constexpr, for host and device. Free of
// branches, so that compilers vectorise loops over them; the larger ones are
// inlined always, for of several copies of a function the linker might give all
// callers the one that was compiled for an instruction set which few CPUs have.
// They expect the default rounding mode.

#ifndef TENSORKV_TENSOR_FLOAT_FORMATS_H_
#define TENSORKV_TENSOR_FLOAT_FORMATS_H_

#include <bit>
#include <cstdint>

#include "absl/base/attributes.h"
#include "tensor/float_layout.h"

namespace tensorkv {

ABSL_ATTRIBUTE_ALWAYS_INLINE constexpr float F16ToF32(uint16_t bits) {
  return float_layout::F16::ToF32(bits);
}
constexpr uint16_t F32ToF16(float value) {
  return float_layout::F16::FromF32(value);
}

constexpr float BF16ToF32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}
constexpr uint16_t F32ToBF16(float value) {
  using float_layout::kF32Infinity;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t is_odd = (bits >> 16) & 1;
  const bool is_nan = (bits << 1) > (kF32Infinity << 1);
  return is_nan ? (bits >> 16) | 0x0040 : (bits + 0x7fff + is_odd) >> 16;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE constexpr float F8E4M3ToF32(uint8_t bits) {
  return float_layout::F8E4M3::ToF32(bits);
}
constexpr uint8_t F32ToF8E4M3(float value) {
  return float_layout::F8E4M3::FromF32(value);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE constexpr float F8E5M2ToF32(uint8_t bits) {
  return float_layout::F8E5M2::ToF32(bits);
}
constexpr uint8_t F32ToF8E5M2(float value) {
  return float_layout::F8E5M2::FromF32(value);
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_FLOAT_FORMATS_H_
