// The rule `sgd` without momentum: w <- w - lr (G + wd w).

#ifndef TENSORKV_KERNELS_OPS_SGD_H_
#define TENSORKV_KERNELS_OPS_SGD_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct Sgd {
  static constexpr int kNumStates = 0;

  static Sgd Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g) const {
    return w - learning_rate * (gradient(g) + weight_decay * w);
  }

  T learning_rate;
  T weight_decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SGD_H_
