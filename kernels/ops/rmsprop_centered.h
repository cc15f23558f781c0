// The rule `rmsprop`, centered:
//
//   g' = G + wd w
//   n <- rho n + (1 - rho) g'^2
//   a <- rho a + (1 - rho) g'
//   d <- momentum d - lr g' / sqrt(max(n - a^2, 0) + eps)
//   w <- clip_weights(w + d)

#ifndef TENSORKV_KERNELS_OPS_RMSPROP_CENTERED_H_
#define TENSORKV_KERNELS_OPS_RMSPROP_CENTERED_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct RmsPropCentered {
  static constexpr int kNumStates = 3;

  // own: centered (not used), rho, momentum, epsilon, clip_weights.
  static RmsPropCentered Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .rho = static_cast<T>(p.own[1]),
            .rest = static_cast<T>(1 - p.own[1]),
            .momentum = static_cast<T>(p.own[2]),
            .epsilon = static_cast<T>(p.own[3]),
            .clip_weights = ClipBound<T>(p.own[4]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [n, a, d] = states;
    const T decayed = gradient(g) + weight_decay * w;
    n = rho * n + rest * (decayed * decayed);
    a = rho * a + rest * decayed;
    // Rounding may have made n less than a^2.
    const T root = SquareRoot(Larger(n - a * a, T(0)) + epsilon);
    d = momentum * d - Quotient(learning_rate * decayed, root);
    return Clip(w + d, clip_weights);
  }

  T learning_rate;
  T weight_decay;
  T rho;
  T rest;
  T momentum;
  T epsilon;
  T clip_weights;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_RMSPROP_CENTERED_H_
