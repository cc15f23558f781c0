// exp, pow and the rest of what expressions compute of one element, made as
// kernels/ops/logarithm.h says.

#ifndef TENSORKV_KERNELS_EXPRESSION_ELEMENT_MATH_H_
#define TENSORKV_KERNELS_EXPRESSION_ELEMENT_MATH_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/logarithm.h"

namespace tensorkv::expression {

using ops::Binary;
using ops::BitsOf;
using ops::FloatFacts;
using ops::FromBits;
using ops::Log;
using ops::Polynomial;
using ops::SplitBinary;

// Added to a number and taken away again, it leaves the nearest integer; in
// between, the last bits of the sum are that integer.
template <typename T>
inline constexpr T kRounder = T(1.5) *
                              (uint64_t{1} << FloatFacts<T>::kMantissaBits);

// Rounds to the nearest integer, ties to even.
// REQUIRES: |x| < 2^(mantissa bits - 1).
template <typename T>
HOST_DEVICE T NearestInteger(T x) {
  return (x + kRounder<T>)-kRounder<T>;
}

// Returns 2^k. REQUIRES: k is an integer and 2^k a normal number.
template <typename T>
HOST_DEVICE T PowerOfTwo(T k) {
  using Facts = FloatFacts<T>;
  return FromBits<T>((BitsOf<T>(k + kRounder<T>) + Facts::kExponentBias)
                     << Facts::kMantissaBits);
}

// Returns (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2: the series, until what is
// left out is less than a tenth of the last bit.
HOST_DEVICE float ExpRest(float r) {
  return Polynomial(r, 1 / 2.f, 1 / 6.f, 1 / 24.f, 1 / 120.f, 1 / 720.f,
                    1 / 5040.f);
}
HOST_DEVICE double ExpRest(double r) {
  return Polynomial(r, 1 / 2., 1 / 6., 1 / 24., 1 / 120., 1 / 720., 1 / 5040.,
                    1 / 40320., 1 / 362880., 1 / 3628800., 1 / 39916800.,
                    1 / 479001600., 1 / 6227020800.);
}

// Returns e^(x + tail), for a tail that is less than the last bit of x. Within
// one unit in the last place; what underflows is rounded once more.
template <typename T>
HOST_DEVICE T Exp(T x, T tail = 0) {
  using Facts = FloatFacts<T>;
  const T above = x < Facts::kLowestExponent ? Facts::kLowestExponent : x;
  const T bounded =
      above > Facts::kHighestExponent ? Facts::kHighestExponent : above;
  const T k = NearestInteger(bounded * T(1.4426950408889634));  // log2(e)
  const T r = (bounded - k * Facts::kLn2High) + (tail - k * Facts::kLn2Low);
  const T result = 1 + (r + r * r * ExpRest(r));
  const T half = NearestInteger(k * T(0.5));  // 2^k itself may be no number
  return result * PowerOfTwo(half) * PowerOfTwo(k - half);
}

// A number as the sum of two, of which the second is below the last bit of the
// first.
struct Double2 {
  double high;
  double low;
};

// Returns a + b exactly. REQUIRES: |a| >= |b|, or a is 0.
HOST_DEVICE Double2 FastTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// Returns a + b exactly.
HOST_DEVICE Double2 TwoSum(double a, double b) {
  const double sum = a + b;
  const double b_in_sum = sum - a;
  return {sum, (a - (sum - b_in_sum)) + (b - b_in_sum)};
}

// Returns the upper 26 bits of a number, and the rest.
HOST_DEVICE Double2 Halves(double a) {
  const double scaled = 134217729 * a;  // 2^27 + 1
  const double high = scaled - (scaled - a);
  return {high, a - high};
}

// Returns a * b exactly, unless a part overflows or underflows.
HOST_DEVICE Double2 TwoProduct(double a, double b) {
  const double product = a * b;
  const auto [a_high, a_low] = Halves(a);
  const auto [b_high, b_low] = Halves(b);
  return {product,
          ((a_high * b_high - product) + a_high * b_low + a_low * b_high) +
              a_low * b_low};
}

HOST_DEVICE Double2 Product(Double2 a, Double2 b) {
  const auto [high, low] = TwoProduct(a.high, b.high);
  return FastTwoSum(high, low + (a.high * b.low + a.low * b.high));
}

// Returns log(x) with some 64 bits. The result is arbitrary unless x > 0 and
// finite.
HOST_DEVICE Double2 LongLog(double x) {
  using Facts = FloatFacts<double>;
  const auto [e, f] = SplitBinary(x);
  const Double2 divisor = FastTwoSum(2, f);
  const double s_high = f / divisor.high;
  const Double2 back = TwoProduct(s_high, divisor.high);
  const double s_low =
      (((f - back.high) - back.low) - s_high * divisor.low) / divisor.high;
  const Double2 s = {s_high, s_low};
  const Double2 square = Product(s, s);
  // 2 atanh(s) = 2 s + s^3 (2/3 + the rest); 2/3 in two parts.
  const double rest =
      square.high * Polynomial(square.high, 2 / 5., 2 / 7., 2 / 9., 2 / 11.,
                               2 / 13., 2 / 15., 2 / 17., 2 / 19., 2 / 21.,
                               2 / 23., 2 / 25.);
  const Double2 factor = TwoSum(2 / 3., rest);
  const Double2 cube = Product(
      Product(s, square), {factor.high, factor.low + 0x1.5555555555555p-55});
  const Double2 large = TwoSum(e * Facts::kLn2High, 2 * s.high);
  const Double2 sum = TwoSum(large.high, cube.high);
  const double low =
      sum.low + (large.low + (e * Facts::kLn2Low + (2 * s.low + cube.low)));
  return FastTwoSum(sum.high, low);
}

// Returns |x|^y for x that is neither 0 nor infinite, and y not NaN.
HOST_DEVICE float PowerOfMagnitude(float magnitude, float y) {
  return static_cast<float>(Exp(y * Log(static_cast<double>(magnitude))));
}
HOST_DEVICE double PowerOfMagnitude(double magnitude, double y) {
  constexpr double kHuge = 0x1p65;  // any power of it is 0, 1 or infinite
  const double above = y < -kHuge ? -kHuge : y;
  const double bounded = above > kHuge ? kHuge : above;
  const Double2 log = LongLog(magnitude);
  const auto [high, low] = TwoProduct(bounded, log.high);
  const bool is_small = (high > -1100) & (high < 1100);
  return Exp(high, is_small ? low + bounded * log.low : 0);
}

template <typename T>
HOST_DEVICE T Absolute(T x) {
  using Facts = FloatFacts<T>;
  constexpr typename Facts::Bits kSign = BitsOf(T(-0.0));
  return FromBits<T>(BitsOf(x) & ~kSign);
}

template <typename T>
HOST_DEVICE bool IsInteger(T x) {
  constexpr T kTwoToMantissa = T(uint64_t{1} << FloatFacts<T>::kMantissaBits);
  const T magnitude = Absolute(x);
  return (magnitude >= kTwoToMantissa) |
         ((magnitude + kTwoToMantissa) - kTwoToMantissa == magnitude);
}

// Returns what C's pow does: pow(x, 0) and pow(1, y) are 1, even of NaN; a
// negative base takes integer exponents only. Within one unit in the last
// place.
template <typename T>
HOST_DEVICE T Pow(T x, T y) {
  using Facts = FloatFacts<T>;
  const T magnitude = Absolute(x);
  // The powers of 0 and infinity are 0, 1 or infinite.
  const bool is_bounded = (magnitude > 0) & (magnitude < Facts::kInfinity);
  const T usual = PowerOfMagnitude(is_bounded ? magnitude : T(1), y);
  const bool grows = (magnitude > 1) == (y > 0);
  const T extreme = grows ? Facts::kInfinity : T(0);
  const T power = is_bounded ? usual : extreme;
  const T one_or_power = ((magnitude == 1) | (y == 0)) ? T(1) : power;
  const bool is_negative = BitsOf(x) > BitsOf(Facts::kInfinity);
  const bool is_odd = IsInteger(y) & !IsInteger(y * T(0.5));
  const T with_sign = (is_negative & is_odd) ? -one_or_power : one_or_power;
  const bool has_no_power =
      (x != x) | (y != y) |
      ((x < 0) & (magnitude < Facts::kInfinity) & !IsInteger(y));
  const T result = has_no_power ? Facts::kNaN : with_sign;
  return ((x == 1) | (y == 0)) ? T(1) : result;
}

// Returns NaN if either is.
template <typename T>
HOST_DEVICE T Min(T a, T b) {
  return ((a < b) | (a != a)) ? a : b;
}
template <typename T>
HOST_DEVICE T Max(T a, T b) {
  return ((a > b) | (a != a)) ? a : b;
}

// Returns -1, 1, or what is neither below nor above 0: zeros and NaN.
template <typename T>
HOST_DEVICE T Sign(T x) {
  const T not_above = x < 0 ? T(-1) : x;
  return x > 0 ? T(1) : not_above;
}

}  // namespace tensorkv::expression

#endif  // TENSORKV_KERNELS_EXPRESSION_ELEMENT_MATH_H_
