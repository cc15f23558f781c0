// The rule `signum`:
//
//   m <- momentum m - (1 - momentum) (G + wd w)
//   w <- (1 - lr wd_lh) w + lr sign(m)

#ifndef TENSORKV_KERNELS_OPS_SIGNUM_H_
#define TENSORKV_KERNELS_OPS_SIGNUM_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct Signum {
  static constexpr int kNumStates = 1;

  // own: momentum, wd_lh.
  static Signum Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .momentum = static_cast<T>(p.own[0]),
            .rest = static_cast<T>(1 - p.own[0]),
            .kept = static_cast<T>(1 - p.learning_rate * p.own[1]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& m = states[0];
    m = momentum * m - rest * (gradient(g) + weight_decay * w);
    return kept * w + learning_rate * Sign(m);
  }

  T learning_rate;
  T weight_decay;
  T momentum;
  T rest;
  // The share of w that is kept.
  T kept;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SIGNUM_H_
