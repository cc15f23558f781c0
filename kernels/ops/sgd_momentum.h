// The rule `sgd` with momentum:
//
//   m <- momentum m - lr (G + wd w)
//   w <- w + m

#ifndef TENSORKV_KERNELS_OPS_SGD_MOMENTUM_H_
#define TENSORKV_KERNELS_OPS_SGD_MOMENTUM_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct SgdMomentum {
  static constexpr int kNumStates = 1;

  // own: momentum.
  static SgdMomentum Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .momentum = static_cast<T>(p.own[0]),
            .weight_decay = static_cast<T>(p.weight_decay),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& m = states[0];
    m = momentum * m - learning_rate * (gradient(g) + weight_decay * w);
    return w + m;
  }

  T learning_rate;
  T momentum;
  T weight_decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SGD_MOMENTUM_H_
