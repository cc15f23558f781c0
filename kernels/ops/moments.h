// The running moments that Adam and its relatives keep.

#ifndef TENSORKV_KERNELS_OPS_MOMENTS_H_
#define TENSORKV_KERNELS_OPS_MOMENTS_H_

#include <math.h>
#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

//   m <- b1 m + (1 - b1) g
//   v <- b2 v + (1 - b2) g^2
//
// Denominator(v) is sqrt(v) + epsilon, by which a step divides m.
template <typename T>
struct Moments {
  static Moments Create(double beta1, double beta2, double epsilon) {
    return {.beta1 = static_cast<T>(beta1),
            .beta2 = static_cast<T>(beta2),
            .rest1 = static_cast<T>(1 - beta1),
            .rest2 = static_cast<T>(1 - beta2),
            .epsilon = static_cast<T>(epsilon)};
  }

  // Replaces the moments by those after gradient `g`.
  HOST_DEVICE void Update(T g, T& m, T& v) const {
    m = Mean(g, m);
    v = Variance(g, v);
  }
  // Return the first moment, and the second, after gradient `g`.
  HOST_DEVICE T Mean(T g, T m) const { return beta1 * m + rest1 * g; }
  HOST_DEVICE T Variance(T g, T v) const { return beta2 * v + rest2 * (g * g); }

  HOST_DEVICE T Denominator(T v) const { return SquareRoot(v) + epsilon; }

  T beta1;
  T beta2;
  T rest1;
  T rest2;
  T epsilon;
};

// Returns base^exponent, by products alone: that of the library may differ in
// the last bit from CPU to CPU.
inline double Power(double base, uint64_t exponent) {
  double power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
}

// Returns the factor that corrects the learning rate of update `t` (from 1) for
// moments that started at zero.
inline double BiasCorrection(double beta1, double beta2, uint64_t t) {
  return sqrt(1 - Power(beta2, t)) / (1 - Power(beta1, t));
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_MOMENTS_H_
