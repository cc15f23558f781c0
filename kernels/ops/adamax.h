// The rule `adamax`:
//
//   g' = G + wd w
//   m <- b1 m + (1 - b1) g'
//   u <- max(b2 u, |g'|)
//   w <- w - lr / (1 - b1^t) m / (u + eps)

#ifndef TENSORKV_KERNELS_OPS_ADAMAX_H_
#define TENSORKV_KERNELS_OPS_ADAMAX_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct Adamax {
  static constexpr int kNumStates = 2;

  // own: beta1, beta2, epsilon.
  static Adamax Create(const RuleParameters& p) {
    const double correction = 1 - Power(p.own[0], p.update_count);
    return {.learning_rate_t = static_cast<T>(p.learning_rate / correction),
            .weight_decay = static_cast<T>(p.weight_decay),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, u] = states;
    const T decayed = gradient(g) + weight_decay * w;
    m = moments.Mean(decayed, m);
    u = Larger(moments.beta2 * u, Magnitude(decayed));
    return w - Quotient(learning_rate_t * m, u + moments.epsilon);
  }

  T learning_rate_t;
  T weight_decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ADAMAX_H_
