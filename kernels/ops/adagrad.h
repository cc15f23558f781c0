// The rule `adagrad`:
//
//   g' = G + wd w
//   h <- h + g'^2
//   w <- w - lr g' / (sqrt(h) + eps)

#ifndef TENSORKV_KERNELS_OPS_ADAGRAD_H_
#define TENSORKV_KERNELS_OPS_ADAGRAD_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct AdaGrad {
  static constexpr int kNumStates = 1;

  // own: epsilon.
  static AdaGrad Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .epsilon = static_cast<T>(p.own[0]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& h = states[0];
    const T decayed = gradient(g) + weight_decay * w;
    h = h + decayed * decayed;
    return w - Quotient(learning_rate * decayed, SquareRoot(h) + epsilon);
  }

  T learning_rate;
  T weight_decay;
  T epsilon;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ADAGRAD_H_
