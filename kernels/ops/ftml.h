// The rule `ftml`:
//
//   g' = G + wd w
//   v <- b2 v + (1 - b2) g'^2
//   d' = (1 - b1^t) / lr (sqrt(v / (1 - b2^t)) + eps)
//   z <- b1 z + (1 - b1) g' - (d' - b1 d) w
//   d <- d'
//   w <- -z / d
//
// Below kLowestRate w, z and d stay, and where d' is 0, too.

#ifndef TENSORKV_KERNELS_OPS_FTML_H_
#define TENSORKV_KERNELS_OPS_FTML_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct Ftml {
  static constexpr int kNumStates = 3;

  // own: beta1, beta2, epsilon.
  static Ftml Create(const RuleParameters& p) {
    const uint64_t t = p.update_count;
    const double rate = p.learning_rate;
    return {.scale = static_cast<T>(
                rate < kLowestRate ? 0 : (1 - Power(p.own[0], t)) / rate),
            .correction = static_cast<T>(1 - Power(p.own[1], t)),
            .weight_decay = static_cast<T>(p.weight_decay),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [v, d, z] = states;
    const T decayed = gradient(g) + weight_decay * w;
    v = moments.Variance(decayed, v);
    const T next = scale * (SquareRoot(v / correction) + moments.epsilon);
    if (next == 0) return w;
    z = moments.Mean(decayed, z) - (next - moments.beta1 * d) * w;
    d = next;
    return -z / d;
  }

  // (1 - b1^t) / lr; 0 if lr is below kLowestRate, for no step.
  T scale;
  T correction;
  T weight_decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_FTML_H_
