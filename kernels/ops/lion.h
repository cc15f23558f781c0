// The rule `lion`:
//
//   w <- w - lr (sign(b1 m + (1 - b1) G) + wd w)
//   m <- b2 m + (1 - b2) G

#ifndef TENSORKV_KERNELS_OPS_LION_H_
#define TENSORKV_KERNELS_OPS_LION_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct Lion {
  static constexpr int kNumStates = 1;

  // own: beta1, beta2.
  static Lion Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .beta1 = static_cast<T>(p.own[0]),
            .rest1 = static_cast<T>(1 - p.own[0]),
            .beta2 = static_cast<T>(p.own[1]),
            .rest2 = static_cast<T>(1 - p.own[1]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& m = states[0];
    const T scaled = gradient(g);
    const T direction = Sign(beta1 * m + rest1 * scaled);
    m = beta2 * m + rest2 * scaled;
    return w - learning_rate * (direction + weight_decay * w);
  }

  T learning_rate;
  T weight_decay;
  T beta1;
  T rest1;
  T beta2;
  T rest2;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_LION_H_
