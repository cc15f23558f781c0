// The rule `amsgrad`: m and v as adam,
//
//   u <- max(u, v)
//   w <- w - lr_t m / (sqrt(u) + eps)

#ifndef TENSORKV_KERNELS_OPS_AMSGRAD_H_
#define TENSORKV_KERNELS_OPS_AMSGRAD_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct AmsGrad {
  static constexpr int kNumStates = 3;

  // own: beta1, beta2, epsilon.
  static AmsGrad Create(const RuleParameters& p) {
    const double correction =
        BiasCorrection(p.own[0], p.own[1], p.update_count);
    return {.learning_rate_t = static_cast<T>(p.learning_rate * correction),
            .weight_decay = static_cast<T>(p.weight_decay),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v, u] = states;
    moments.Update(gradient(g) + weight_decay * w, m, v);
    u = Larger(u, v);
    return w - Quotient(learning_rate_t * m, moments.Denominator(u));
  }

  T learning_rate_t;
  T weight_decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_AMSGRAD_H_
