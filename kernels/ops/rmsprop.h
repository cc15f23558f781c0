// The rule `rmsprop`:
//
//   g' = G + wd w
//   n <- rho n + (1 - rho) g'^2
//   w <- clip_weights(w - lr g' / (sqrt(n) + eps))

#ifndef TENSORKV_KERNELS_OPS_RMSPROP_H_
#define TENSORKV_KERNELS_OPS_RMSPROP_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct RmsProp {
  static constexpr int kNumStates = 1;

  // own: centered (not used), rho, momentum (not used), epsilon, clip_weights.
  static RmsProp Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .rho = static_cast<T>(p.own[1]),
            .rest = static_cast<T>(1 - p.own[1]),
            .epsilon = static_cast<T>(p.own[3]),
            .clip_weights = ClipBound<T>(p.own[4]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& n = states[0];
    const T decayed = gradient(g) + weight_decay * w;
    n = rho * n + rest * (decayed * decayed);
    const T step = Quotient(learning_rate * decayed, SquareRoot(n) + epsilon);
    return Clip(w - step, clip_weights);
  }

  T learning_rate;
  T weight_decay;
  T rho;
  T rest;
  T epsilon;
  T clip_weights;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_RMSPROP_H_
