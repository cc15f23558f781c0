// The rule `dcasgd`, which makes up for the delay of a gradient:
//
//   g' = G + wd w
//   m <- momentum m - lr (g' + lambda g'^2 s)
//   s <- how far this update moves w, so w - w' at the next
//   w <- w + m

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
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, moved] = states;
    const T decayed = gradient(g) + weight_decay * w;
    m = momentum * m -
        learning_rate * (decayed + lambda * decayed * decayed * moved);
    const T next = w + m;
    moved = gradient.is_frozen ? T(0) : next - w;
    return next;
  }

  T learning_rate;
  T weight_decay;
  T momentum;
  T lambda;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_DCASGD_H_
