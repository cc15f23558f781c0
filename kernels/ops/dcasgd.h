// The rule `dcasgd`, which makes up for the delay of a gradient:
//
//   g' = G + wd w
//   m <- momentum m - lr (g' + lambda g'^2 (w - w'))
//   w' <- w
//   w <- w + m
//
// w' is w at the first update.

#ifndef TENSORKV_KERNELS_OPS_DCASGD_H_
#define TENSORKV_KERNELS_OPS_DCASGD_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct DcAsgd {
  static constexpr int kNumStates = 2;

  // own: momentum, lambda.
  static DcAsgd Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .momentum = static_cast<T>(p.own[0]),
            .lambda = static_cast<T>(p.own[1]),
            .is_first = p.update_count == 1,
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, previous] = states;
    const T decayed = gradient(g) + weight_decay * w;
    const T moved = w - (is_first ? w : previous);
    m = momentum * m -
        learning_rate * (decayed + lambda * decayed * decayed * moved);
    previous = w;
    return w + m;
  }

  T learning_rate;
  T weight_decay;
  T momentum;
  T lambda;
  bool is_first;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_DCASGD_H_
