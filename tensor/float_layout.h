// How the small float formats are laid out, and their translation from and to
// f32 bit by bit. Part of float_formats.h; include that.

#ifndef TENSORKV_TENSOR_FLOAT_LAYOUT_H_
#define TENSORKV_TENSOR_FLOAT_LAYOUT_H_

#include <bit>
#include <cstdint>

#include "absl/base/attributes.h"

namespace tensorkv {
namespace float_layout {

constexpr uint32_t kF32Sign = 0x80000000;
constexpr uint32_t kF32Infinity = 0x7f800000;
constexpr uint32_t kF32Quiet = 0x00400000;

// A format with a sign bit, `exponent_bits` and `mantissa_bits`, whose numbers
// have exponent fields up to `largest_exponent`. A magnitude is a pattern
// without its sign.
//
// The float operations here run for every input, and their results are used
// for every input: where they depend on a condition, compilers do not
// vectorise.
template <int exponent_bits, int mantissa_bits, uint32_t largest_exponent>
struct Format {
  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr int kSignShift = 31 - exponent_bits - mantissa_bits;
  static constexpr uint32_t kMagnitudeMask =
      (1u << (exponent_bits + mantissa_bits)) - 1;
  static constexpr uint32_t kMantissaMask = (1u << mantissa_bits) - 1;
  // The exponent of an f32 less that of the same value here.
  static constexpr uint32_t kRebias = 128u - (1u << (exponent_bits - 1));

  static constexpr uint32_t MagnitudeToF32(uint32_t magnitude) {
    const uint32_t exponent = magnitude >> mantissa_bits;
    const uint32_t leading_one = exponent > 0 ? kMantissaMask + 1 : 0;
    const uint32_t scale = (exponent > 0 ? exponent : 1) - mantissa_bits;
    const int significand = (magnitude & kMantissaMask) | leading_one;
    return std::bit_cast<uint32_t>(
        static_cast<float>(significand) *
        std::bit_cast<float>((scale + kRebias) << 23));
  }

  // Values too large, infinity and NaN give the first pattern past
  // `largest_exponent`.
  static constexpr uint32_t MagnitudeFromF32(uint32_t magnitude) {
    constexpr uint32_t kMinNormal = (1 + kRebias) << 23;
    constexpr uint32_t kTooLarge = (largest_exponent + 1 + kRebias) << 23;
    const uint32_t bounded = magnitude < kTooLarge ? magnitude : kTooLarge;
    const uint32_t exponent = bounded & kF32Infinity;
    const uint32_t ours = exponent > kMinNormal ? exponent : kMinNormal;
    // A power of two whose last bit is worth what the last bit of the result
    // is: the addition rounds there, and the sum counts such bits.
    const uint32_t power = ours + (kShift << 23);
    const float sum =
        std::bit_cast<float>(bounded) + std::bit_cast<float>(power);
    return std::bit_cast<uint32_t>(sum) - power +
           ((ours - kMinNormal) >> kShift);
  }

  static constexpr uint32_t SignToF32(uint32_t bits) {
    return (bits & ~kMagnitudeMask) << kSignShift;
  }
  static constexpr uint32_t SignFromF32(uint32_t bits) {
    return (bits & kF32Sign) >> kSignShift;
  }
};

// A format whose largest exponent stands for infinity and NaN.
template <int exponent_bits, int mantissa_bits>
struct IeeeFormat
    : Format<exponent_bits, mantissa_bits, (1 << exponent_bits) - 2> {
  using Base = Format<exponent_bits, mantissa_bits, (1 << exponent_bits) - 2>;
  static constexpr uint32_t kInfinity =
      Base::kMagnitudeMask - Base::kMantissaMask;
  static constexpr uint32_t kQuiet = 1u << (mantissa_bits - 1);

  ABSL_ATTRIBUTE_ALWAYS_INLINE static constexpr float ToF32(uint32_t bits) {
    const uint32_t magnitude = bits & Base::kMagnitudeMask;
    return std::bit_cast<float>(Base::SignToF32(bits) |
                                Base::MagnitudeToF32(magnitude) |
                                (magnitude >= kInfinity ? kF32Infinity : 0) |
                                (magnitude > kInfinity ? kF32Quiet : 0));
  }

  static constexpr uint32_t FromF32(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & ~kF32Sign;
    const uint32_t payload = (magnitude >> Base::kShift) & Base::kMantissaMask;
    // For a NaN the second term is infinity.
    return Base::SignFromF32(bits) | Base::MagnitudeFromF32(magnitude) |
           (magnitude > kF32Infinity ? kQuiet | payload : 0);
  }
};

// Without infinity; only the largest pattern of either sign is NaN.
struct F8E4M3 : Format<4, 3, 15> {
  static constexpr uint32_t kNan = kMagnitudeMask;

  ABSL_ATTRIBUTE_ALWAYS_INLINE static constexpr float ToF32(uint32_t bits) {
    const uint32_t magnitude = bits & kMagnitudeMask;
    return std::bit_cast<float>(
        SignToF32(bits) | MagnitudeToF32(magnitude) |
        (magnitude == kNan ? kF32Infinity | kF32Quiet : 0));
  }

  static constexpr uint32_t FromF32(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = MagnitudeFromF32(bits & ~kF32Sign);
    return SignFromF32(bits) | (rounded < kNan ? rounded : kNan);
  }
};

using F16 = IeeeFormat<5, 10>;
using F8E5M2 = IeeeFormat<5, 2>;

}  // namespace float_layout
}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_FLOAT_LAYOUT_H_
