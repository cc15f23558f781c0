// The rule `ftrl`:
//
//   n' = n + G^2
//   z <- z + G - (sqrt(n') - sqrt(n)) w / lr
//   n <- n'
//   w <- -sign(z) max(|z| - lambda1, 0) / ((beta + sqrt(n)) / lr + wd)
//
// Below kLowestRate nothing changes, not even the states: w depends on lr, not
// only its step.

#ifndef TENSORKV_KERNELS_OPS_FTRL_H_
#define TENSORKV_KERNELS_OPS_FTRL_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct Ftrl {
  static constexpr int kNumStates = 2;

  // own: lambda1, beta.
  static Ftrl Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .lambda1 = static_cast<T>(p.own[0]),
            .beta = static_cast<T>(p.own[1]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [z, n] = states;
    if (learning_rate < T(kLowestRate)) return w;
    const T scaled = gradient(g);
    const T next = n + scaled * scaled;
    const T root = SquareRoot(next);
    z = z + scaled - (root - SquareRoot(n)) * w / learning_rate;
    n = next;
    const T excess = Larger(Magnitude(z) - lambda1, T(0));
    return Quotient(-Sign(z) * excess,
                    (beta + root) / learning_rate + weight_decay);
  }

  T learning_rate;
  T weight_decay;
  T lambda1;
  T beta;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_FTRL_H_
