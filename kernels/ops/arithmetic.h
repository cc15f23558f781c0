// Sums, products and roots of one element, the same on host and device.

#ifndef TENSORKV_KERNELS_OPS_ARITHMETIC_H_
#define TENSORKV_KERNELS_OPS_ARITHMETIC_H_

#include <math.h>
#include <stdint.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// One byte; every value but zero is true. Not C++'s bool, which may not hold
// other bytes than 0 and 1.
enum class Bool : uint8_t { kFalse = 0, kTrue = 1 };

// Adds floats as IEEE 754 has it; integers wrap; Bool is logical or.
HOST_DEVICE float Add(float a, float b) { return a + b; }
HOST_DEVICE double Add(double a, double b) { return a + b; }
HOST_DEVICE Bool Add(Bool a, Bool b) {
  return (a != Bool::kFalse) | (b != Bool::kFalse) ? Bool::kTrue : Bool::kFalse;
}

// The value that a sum of floats begins with: adding it to a number changes no
// bit.
template <typename T>
inline constexpr T kNoSum = static_cast<T>(-0.0);

// Multiplies floats as IEEE 754 has it; integers wrap; Bool is logical and.
HOST_DEVICE float Multiply(float a, float b) { return a * b; }
HOST_DEVICE double Multiply(double a, double b) { return a * b; }
HOST_DEVICE Bool Multiply(Bool a, Bool b) {
  return (a != Bool::kFalse) & (b != Bool::kFalse) ? Bool::kTrue : Bool::kFalse;
}

// The unsigned type in which T wraps, at least as wide as int, so that nothing
// overflows.
template <typename T>
struct WrappingType {
  using Type = uint32_t;
};
template <>
struct WrappingType<int64_t> {
  using Type = uint64_t;
};

template <typename T>
HOST_DEVICE T Add(T a, T b) {
  using Wrapping = typename WrappingType<T>::Type;
  return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
}

template <typename T>
HOST_DEVICE T Multiply(T a, T b) {
  using Wrapping = typename WrappingType<T>::Type;
  return static_cast<T>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
}

// Returns the square root, correctly rounded: by the built-in on the host,
// since the library's inline wrappers could end up out of line (host_device.h
// says why not).
#if defined(__CUDACC__)
HOST_DEVICE float SquareRoot(float x) { return sqrtf(x); }
HOST_DEVICE double SquareRoot(double x) { return sqrt(x); }
#else
HOST_DEVICE float SquareRoot(float x) { return __builtin_sqrtf(x); }
HOST_DEVICE double SquareRoot(double x) { return __builtin_sqrt(x); }
#endif

// Returns the larger of both; `b` if either is NaN.
template <typename T>
HOST_DEVICE T Larger(T a, T b) {
  return a > b ? a : b;
}

// Returns |x|; 0 for -0.
template <typename T>
HOST_DEVICE T Magnitude(T x) {
  return x < 0 ? -x : x + T(0);
}

// Returns -1, 1, or x itself: a zero or NaN.
template <typename T>
HOST_DEVICE T Sign(T x) {
  return x > 0 ? T(1) : (x < 0 ? T(-1) : x);
}

// The smallest magnitude by which Quotient divides.
template <typename T>
inline constexpr T kLowestDivisor = T(0x1p-100);
template <>
inline constexpr double kLowestDivisor<double> = 0x1p-1000;

// Returns a / b, but 0 where |b| is below kLowestDivisor, where the quotient
// would be mostly infinite. `a` / NaN is NaN.
template <typename T>
HOST_DEVICE T Quotient(T a, T b) {
  return Magnitude(b) < kLowestDivisor<T> ? T(0) : a / b;
}

// Returns min(max(x, -bound), bound); NaN stays NaN.
template <typename T>
HOST_DEVICE T Clip(T x, T bound) {
  const T above = x < -bound ? -bound : x;
  return above > bound ? bound : above;
}

// Returns the bound for Clip; infinity, which turns clipping off, for a
// negative one.
template <typename T>
inline T ClipBound(double bound) {
  return static_cast<T>(bound < 0 ? HUGE_VAL : bound);
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ARITHMETIC_H_
