// The rule `adadelta`:
//
//   g' = G + wd w
//   e <- rho e + (1 - rho) g'^2
//   s = sqrt(d + eps) / sqrt(e + eps) g'
//   d <- rho d + (1 - rho) s^2
//   w <- w - lr s

#ifndef TENSORKV_KERNELS_OPS_ADADELTA_H_
#define TENSORKV_KERNELS_OPS_ADADELTA_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct AdaDelta {
  static constexpr int kNumStates = 2;

  // own: rho, epsilon.
  static AdaDelta Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .rho = static_cast<T>(p.own[0]),
            .rest = static_cast<T>(1 - p.own[0]),
            .epsilon = static_cast<T>(p.own[1]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [e, d] = states;
    const T decayed = gradient(g) + weight_decay * w;
    e = rho * e + rest * (decayed * decayed);
    const T step =
        Quotient(SquareRoot(d + epsilon), SquareRoot(e + epsilon)) * decayed;
    d = rho * d + rest * (step * step);
    return w - learning_rate * step;
  }

  T learning_rate;
  T weight_decay;
  T rho;
  T rest;
  T epsilon;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ADADELTA_H_
