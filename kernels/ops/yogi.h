// The rule `yogi`:
//
//   g' = G + wd w
//   m <- b1 m + (1 - b1) g'
//   v <- v - (1 - b2) g'^2 sign(v - g'^2)
//   w <- w - lr m / (sqrt(v) + eps)

#ifndef TENSORKV_KERNELS_OPS_YOGI_H_
#define TENSORKV_KERNELS_OPS_YOGI_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct Yogi {
  static constexpr int kNumStates = 2;

  // own: beta1, beta2, epsilon.
  static Yogi Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v] = states;
    const T decayed = gradient(g) + weight_decay * w;
    const T square = decayed * decayed;
    m = moments.Mean(decayed, m);
    v = v - moments.rest2 * square * Sign(v - square);
    return w - Quotient(learning_rate * m, moments.Denominator(v));
  }

  T learning_rate;
  T weight_decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_YOGI_H_
