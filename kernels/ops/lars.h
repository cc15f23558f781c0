// The rule `lars`, with norms over the key:
//
//   ratio = eta |w| / (|rescale g| + wd |w| + eps), 1 where a norm is 0
//   m <- momentum m - lr ratio (G + wd w)
//   w <- w + m

#ifndef TENSORKV_KERNELS_OPS_LARS_H_
#define TENSORKV_KERNELS_OPS_LARS_H_

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/ops/trust_ratio.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state.
template <typename T>
struct Lars {
  static constexpr int kNumStates = 1;
  static constexpr int kNumPhases = 1;
  static constexpr int kNumSums = 2;

  // own: momentum, eta, epsilon.
  static Lars Create(const RuleParameters& p) {
    return {.scheduled_rate = p.learning_rate,
            .decay = p.weight_decay,
            .eta = p.own[1],
            .epsilon = p.own[2],
            .learning_rate = static_cast<T>(p.learning_rate),
            .momentum = static_cast<T>(p.own[0]),
            .weight_decay = static_cast<T>(p.weight_decay),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE void Terms(int, T w, T g, const T (&)[kNumStates],
                         double (&terms)[kNumSums]) const {
    terms[0] = Square(w);
    terms[1] = Square(gradient.rescale * g);
  }

  HOST_DEVICE void SetSums(int, const double* sums) {
    const double w_norm = SquareRoot(sums[0]);
    const double g_norm = SquareRoot(sums[1]);
    if (w_norm == 0 || g_norm == 0) return;
    const double ratio =
        Quotient(eta * w_norm, g_norm + decay * w_norm + epsilon);
    learning_rate = Bounded<T>(scheduled_rate * ratio);
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    T& m = states[0];
    m = momentum * m - learning_rate * (gradient(g) + weight_decay * w);
    return w + m;
  }

  double scheduled_rate;
  double decay;
  double eta;
  double epsilon;
  T learning_rate;
  T momentum;
  T weight_decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_LARS_H_
