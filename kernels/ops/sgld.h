// The rule `sgld`, stochastic gradient Langevin dynamics:
//
//   w <- w - lr / 2 (G + wd w) + sqrt(lr) x
//
// x is normal, and follows from the key, t and the element.

#ifndef TENSORKV_KERNELS_OPS_SGLD_H_
#define TENSORKV_KERNELS_OPS_SGLD_H_

#include <math.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/random.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct Sgld {
  static constexpr int kNumStates = 0;

  static Sgld Create(const RuleParameters& p) {
    return {.half_rate = static_cast<T>(p.learning_rate / 2),
            .weight_decay = static_cast<T>(p.weight_decay),
            .deviation = static_cast<T>(sqrt(p.learning_rate)),
            .noise = {p.seed, p.update_count},
            .gradient = Gradient<T>::Create(p)};
  }

  // x is what `noise` has for the element.
  HOST_DEVICE T operator()(T w, T g, T x) const {
    return w - half_rate * (gradient(g) + weight_decay * w) + deviation * x;
  }

  T half_rate;
  T weight_decay;
  T deviation;
  NormalNoise<T> noise;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SGLD_H_
