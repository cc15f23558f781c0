// The natural logarithm of one element, from additions, products and a quotient
// alone: the same bits on every instruction set and device; and what functions
// like it are made of.
//
// Free of branches, so that compilers vectorise loops over these functions.
// They expect the default rounding mode and no contraction of a*b+c.

#ifndef TENSORKV_KERNELS_OPS_LOGARITHM_H_
#define TENSORKV_KERNELS_OPS_LOGARITHM_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// The format of T and the constants that depend on its precision.
template <typename T>
struct FloatFacts;

template <>
struct FloatFacts<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kExponentBias = 127;
  static constexpr Bits kBitsOfOne = 0x3f800000;
  static constexpr Bits kBitsOfRootOfHalf = 0x3f3504f3;
  static constexpr float kSmallestNormal = 0x1p-126f;
  static constexpr float kLargest = 0x1.fffffep127f;
  static constexpr float kInfinity = __builtin_huge_valf();
  static constexpr float kNaN = __builtin_nanf("");
  // Below the first, exp is 0; above the second, infinite.
  static constexpr float kLowestExponent = -104;
  static constexpr float kHighestExponent = 89;
  // ln 2 in two parts: a product of the first and an exponent is exact.
  static constexpr float kLn2High = 0x1.62e4p-1f;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;
};

template <>
struct FloatFacts<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kExponentBias = 1023;
  static constexpr Bits kBitsOfOne = 0x3ff0000000000000;
  static constexpr Bits kBitsOfRootOfHalf = 0x3fe6a09e667f3bcd;
  static constexpr double kSmallestNormal = 0x1p-1022;
  static constexpr double kLargest = 0x1.fffffffffffffp1023;
  static constexpr double kInfinity = __builtin_huge_val();
  static constexpr double kNaN = __builtin_nan("");
  static constexpr double kLowestExponent = -746;
  static constexpr double kHighestExponent = 710;
  static constexpr double kLn2High = 0x1.62e42fefp-1;
  static constexpr double kLn2Low = 0x1.473de6af278edp-34;
};

template <typename T>
HOST_DEVICE constexpr typename FloatFacts<T>::Bits BitsOf(T x) {
  return __builtin_bit_cast(typename FloatFacts<T>::Bits, x);
}
template <typename T>
HOST_DEVICE constexpr T FromBits(typename FloatFacts<T>::Bits bits) {
  return __builtin_bit_cast(T, bits);
}

// c + x (c1 + x (c2 + ...))
template <typename T>
HOST_DEVICE T Polynomial(T /*x*/, T c) {
  return c;
}
template <typename T, typename... Rest>
HOST_DEVICE T Polynomial(T x, T c, Rest... rest) {
  return c + x * Polynomial(x, rest...);
}

// Returns (2 atanh(s) - 2 s) / s, as a series in `square`, which is s^2, for
// |s| <= 3 - sqrt(8).
HOST_DEVICE float AtanhRest(float square) {
  return square *
         Polynomial(square, 2 / 3.f, 2 / 5.f, 2 / 7.f, 2 / 9.f, 2 / 11.f);
}
HOST_DEVICE double AtanhRest(double square) {
  return square * Polynomial(square, 2 / 3., 2 / 5., 2 / 7., 2 / 9., 2 / 11.,
                             2 / 13., 2 / 15., 2 / 17., 2 / 19., 2 / 21.);
}

// x = 2^exponent (1 + fraction), with 1 + fraction from sqrt(1/2) to sqrt(2).
template <typename T>
struct Binary {
  T exponent;
  T fraction;
};

// Splits x / 2^more. The result is arbitrary unless x is normal and above 0.
template <typename T>
HOST_DEVICE Binary<T> SplitNormal(T x, T more) {
  using Facts = FloatFacts<T>;
  using Bits = typename Facts::Bits;
  constexpr T kTwoToMantissa = T(uint64_t{1} << Facts::kMantissaBits);
  constexpr Bits kMantissaMask = (Bits{1} << Facts::kMantissaBits) - 1;
  const Bits bits = BitsOf(x) + (Facts::kBitsOfOne - Facts::kBitsOfRootOfHalf);
  const T biased =
      FromBits<T>((bits >> Facts::kMantissaBits) | BitsOf(kTwoToMantissa));
  return {
      .exponent = biased - (kTwoToMantissa + T(Facts::kExponentBias) + more),
      .fraction =
          FromBits<T>((bits & kMantissaMask) + Facts::kBitsOfRootOfHalf) - 1};
}

// Splits x. The result is arbitrary unless x > 0 and finite.
template <typename T>
HOST_DEVICE Binary<T> SplitBinary(T x) {
  using Facts = FloatFacts<T>;
  constexpr T kTwoToMantissa = T(uint64_t{1} << Facts::kMantissaBits);
  const bool is_subnormal = x < Facts::kSmallestNormal;
  return SplitNormal(is_subnormal ? x * kTwoToMantissa : x,
                     is_subnormal ? T(Facts::kMantissaBits) : T(0));
}

// Returns log(x) within one unit in the last place; -infinity for 0, NaN for
// less and for NaN. With f = 2 s / (1 - s): log(1 + f) = 2 atanh(s) = f - s f +
// s AtanhRest(s^2).
template <typename T>
HOST_DEVICE T Log(T x) {
  using Facts = FloatFacts<T>;
  const auto [e, f] = SplitBinary(x);
  const T s = f / (2 + f);
  const T half_square = T(0.5) * f * f;  // s f = half_square - s half_square
  const T correction = s * (half_square + AtanhRest(s * s));
  const T result = e * Facts::kLn2High +
                   (f - (half_square - (correction + e * Facts::kLn2Low)));
  const T at_most_zero = x == 0 ? -Facts::kInfinity : Facts::kNaN;
  const T finite = x > 0 ? result : at_most_zero;
  return x == Facts::kInfinity ? x : finite;
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_LOGARITHM_H_
