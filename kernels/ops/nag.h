// The rule `nag`, Nesterov's accelerated gradient:
//
//   g' = G + wd w
//   m <- momentum m - lr g'
//   w <- w + momentum m - lr g'

#ifndef TENSORKV_KERNELS_OPS_NAG_H_
#define TENSORKV_KERNELS_OPS_NAG_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct Nag {
  static constexpr int kNumStates = 1;

  // own: momentum.
  static Nag Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .momentum = static_cast<T>(p.own[0]),
            .weight_decay = static_cast<T>(p.weight_decay),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& m = states[0];
    const T step = learning_rate * (gradient(g) + weight_decay * w);
    m = momentum * m - step;
    return w + (momentum * m - step);
  }

  T learning_rate;
  T momentum;
  T weight_decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_NAG_H_
