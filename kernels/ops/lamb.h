// The rule `lamb`, with norms over the key:
//
//   m <- b1 m + (1 - b1) G
//   v <- b2 v + (1 - b2) G^2
//   u = m' / (sqrt(v') + eps) + wd w
//   w <- w - lr |w| / |u| u
//
// m' = m / (1 - b1^t) and v' = v / (1 - b2^t), or m and v; |w| is clipped.

#ifndef TENSORKV_KERNELS_OPS_LAMB_H_
#define TENSORKV_KERNELS_OPS_LAMB_H_

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/ops/trust_ratio.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct Lamb {
  static constexpr int kNumStates = 2;
  static constexpr int kNumPhases = 1;
  static constexpr int kNumSums = 2;

  // own: beta1, beta2, epsilon, lower_bound, upper_bound, bias_correction.
  static Lamb Create(const RuleParameters& p) {
    const bool corrects = p.own[5] != 0;
    const double rest1 = corrects ? 1 - Power(p.own[0], p.update_count) : 1;
    const double rest2 = corrects ? 1 - Power(p.own[1], p.update_count) : 1;
    return {.scheduled_rate = p.learning_rate,
            .ratio = {p.own[3], p.own[4]},
            .learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .mean_scale = static_cast<T>(1 / rest1),
            .variance_scale = static_cast<T>(1 / rest2),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE void Terms(int, T w, T g, const T (&states)[kNumStates],
                         double (&terms)[kNumSums]) const {
    T changed[kNumStates] = {states[0], states[1]};
    terms[0] = Square(w);
    terms[1] = Square(Direction(w, g, changed));
  }

  HOST_DEVICE void SetSums(int, const double* sums) {
    learning_rate = Bounded<T>(scheduled_rate * ratio(sums[0], sums[1]));
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    return w - learning_rate * Direction(w, g, states);
  }

  // Returns u, and updates `states`.
  HOST_DEVICE T Direction(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v] = states;
    moments.Update(gradient(g), m, v);
    return Quotient(mean_scale * m, moments.Denominator(variance_scale * v)) +
           weight_decay * w;
  }

  double scheduled_rate;
  TrustRatio ratio;
  T learning_rate;
  T weight_decay;
  T mean_scale;
  T variance_scale;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_LAMB_H_
