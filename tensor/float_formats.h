// Conversions between f32 and the 16-bit and 8-bit float formats.
//
// All round to nearest, ties to even, and keep NaN a NaN. Values too large
// become infinity, or NaN in f8e4m3, which has no infinity (so PyTorch and
// ml_dtypes do; saturation is left to the caller). Subnormals are kept.
//
// Formats: f16, IEEE 754 binary16 · bf16, the upper half of an f32 · f8e4m3
// ("FN") and f8e5m2, OCP 8-bit Floating Point Specification 1.0.
//
// Pure functions of bit patterns, constexpr, for host and device.

#ifndef TENSORKV_TENSOR_FLOAT_FORMATS_H_
#define TENSORKV_TENSOR_FLOAT_FORMATS_H_

#include <cstdint>

namespace tensorkv {

constexpr float F16ToF32(uint16_t bits);
constexpr uint16_t F32ToF16(float value);

constexpr float BF16ToF32(uint16_t bits);
constexpr uint16_t F32ToBF16(float value);

constexpr float F8E4M3ToF32(uint8_t bits);
constexpr uint8_t F32ToF8E4M3(float value);

constexpr float F8E5M2ToF32(uint8_t bits);
constexpr uint8_t F32ToF8E5M2(float value);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_FLOAT_FORMATS_H_
