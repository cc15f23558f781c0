// The weighted mean of the contributions x to one element:
//
//   s = w[0] x[0], then s <- s + w[k] x[k] in order; the mean is s / total
//
// Floats are computed in their accumulate type, all others in f64, from which
// the mean is rounded to nearest even; Bool counts as 0 and 1.

#ifndef TENSORKV_KERNELS_OPS_WEIGHTED_MEAN_H_
#define TENSORKV_KERNELS_OPS_WEIGHTED_MEAN_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// The type in which elements of T are weighed, and the type of those that are
// unsigned: WrappingType (tensor/dtype.h) has one T for both.
template <typename T, typename UnsignedT = T>
struct WeighedInteger {
  using Wide = double;
  using Unsigned = UnsignedT;
  static constexpr bool kRounds = true;
};
template <typename T>
struct WeighedFloat {
  using Wide = T;
  using Unsigned = T;
  static constexpr bool kRounds = false;
};
template <typename T>
struct WeighedType : WeighedInteger<T> {};
template <>
struct WeighedType<int16_t> : WeighedInteger<int16_t, uint16_t> {};
template <>
struct WeighedType<int32_t> : WeighedInteger<int32_t, uint32_t> {};
template <>
struct WeighedType<int64_t> : WeighedInteger<int64_t, uint64_t> {};
template <>
struct WeighedType<float> : WeighedFloat<float> {};
template <>
struct WeighedType<double> : WeighedFloat<double> {};
template <typename T>
using Wide = typename WeighedType<T>::Wide;

// Returns the element as it is weighed.
template <bool is_unsigned, typename T>
HOST_DEVICE Wide<T> Widen(T element) {
  using Unsigned = typename WeighedType<T>::Unsigned;
  if constexpr (is_unsigned) {
    return static_cast<Wide<T>>(static_cast<Unsigned>(element));
  } else {
    return static_cast<Wide<T>>(element);
  }
}
template <>
HOST_DEVICE double Widen<false>(Bool element) {
  return element != Bool::kFalse ? 1 : 0;
}
template <>
HOST_DEVICE double Widen<true>(Bool element) {
  return Widen<false>(element);
}

// Adds a contribution to the sum.
template <bool is_unsigned, typename T>
HOST_DEVICE Wide<T> AddWeighted(Wide<T> sum, Wide<T> weight, T element) {
  const Wide<T> product = weight * Widen<is_unsigned>(element);
  return sum + product;
}

// Rounds to an integer, to nearest even. Numbers of at least 2^52 are integers,
// and what is added to smaller ones leaves no place for fractions.
HOST_DEVICE double RoundToInteger(double x) {
  constexpr double kNoFractions = 0x1p52;
  if (x >= kNoFractions || x <= -kNoFractions) return x;
  return x < 0 ? (x - kNoFractions) + kNoFractions
               : (x + kNoFractions) - kNoFractions;
}

// Returns an integer as one of 64 bits, or the nearest that there is.
template <bool is_unsigned>
HOST_DEVICE int64_t ToBits(double integer) {
  if constexpr (is_unsigned) {
    return static_cast<int64_t>(
        integer < 0x1p64 ? static_cast<uint64_t>(integer) : UINT64_MAX);
  } else {
    if (integer >= 0x1p63) return INT64_MAX;
    return integer > -0x1p63 ? static_cast<int64_t>(integer) : INT64_MIN;
  }
}

// Returns the mean as an element. Where elements have 64 bits, the rounding of
// the sum may have left their range.
template <bool is_unsigned, typename T>
HOST_DEVICE T RoundMean(Wide<T> mean) {
  if constexpr (WeighedType<T>::kRounds) {
    return static_cast<T>(ToBits<is_unsigned>(RoundToInteger(mean)));
  } else {
    return mean;
  }
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_WEIGHTED_MEAN_H_
