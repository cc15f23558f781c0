// The trust ratio of LAMB and LANS: how far a layer may move.

#ifndef TENSORKV_KERNELS_OPS_TRUST_RATIO_H_
#define TENSORKV_KERNELS_OPS_TRUST_RATIO_H_

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/logarithm.h"

namespace tensorkv::ops {

// |w| / |u|, with |w| clipped to the bounds; 1 where either norm is 0 then. A
// negative bound is none.
struct TrustRatio {
  // Takes the sums of the squares of w and u.
  HOST_DEVICE double operator()(double w_squares, double u_squares) const {
    double w_norm = SquareRoot(w_squares);
    const double u_norm = SquareRoot(u_squares);
    if (lower_bound >= 0 && w_norm < lower_bound) w_norm = lower_bound;
    if (upper_bound >= 0 && w_norm > upper_bound) w_norm = upper_bound;
    return w_norm == 0 || u_norm == 0 ? 1 : w_norm / u_norm;
  }

  double lower_bound;
  double upper_bound;
};

// Returns `factor` as a T, clipped to the finite numbers, so that no product
// with 0 is NaN; NaN stays NaN.
template <typename T>
HOST_DEVICE T Bounded(double factor) {
  constexpr double kLargest = FloatFacts<T>::kLargest;
  if (factor > kLargest) return FloatFacts<T>::kLargest;
  return static_cast<T>(factor < -kLargest ? -kLargest : factor);
}

// Returns x^2 in f64, which is exact for floats.
template <typename T>
HOST_DEVICE double Square(T x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_TRUST_RATIO_H_
