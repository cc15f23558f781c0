// The rule `lans`, with norms over the key:
//
//   g' = clip(rescale g / |rescale g|), 0 where the norm is 0
//   m <- b1 m + (1 - b1) g'
//   v <- b2 v + (1 - b2) g'^2
//   d = sqrt(v / (1 - b2^t)) + eps
//   u = m / (1 - b1^t) / d + wd w
//   n = g' / d + wd w
//   w <- w - lr (b1 |w| / |u| u + (1 - b1) |w| / |n| n)
//
// |w| is clipped.

#ifndef TENSORKV_KERNELS_OPS_LANS_H_
#define TENSORKV_KERNELS_OPS_LANS_H_

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/ops/trust_ratio.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct Lans {
  static constexpr int kNumStates = 2;
  static constexpr int kNumPhases = 2;
  static constexpr int kNumSums = 3;

  // own: beta1, beta2, epsilon, lower_bound, upper_bound.
  static Lans Create(const RuleParameters& p) {
    const double rest1 = 1 - Power(p.own[0], p.update_count);
    const double rest2 = 1 - Power(p.own[1], p.update_count);
    return {.mean_rate = p.learning_rate * p.own[0],
            .gradient_rate = p.learning_rate * (1 - p.own[0]),
            .ratio = {p.own[3], p.own[4]},
            .inverse_norm = 1,
            .step_of_mean = 0,
            .step_of_gradient = 0,
            .weight_decay = static_cast<T>(p.weight_decay),
            .mean_scale = static_cast<T>(1 / rest1),
            .variance_scale = static_cast<T>(1 / rest2),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  static constexpr int NumTerms(int phase) { return phase == 0 ? 1 : kNumSums; }
  HOST_DEVICE void Terms(int phase, T w, T g, const T (&states)[kNumStates],
                         double (&terms)[kNumSums]) const {
    if (phase == 0) {
      terms[0] = Square(gradient.rescale * g);
      terms[1] = terms[2] = 0;
      return;
    }
    T changed[kNumStates] = {states[0], states[1]};
    const Directions to = DirectionsOf(w, g, changed);
    terms[0] = Square(w);
    terms[1] = Square(to.mean);
    terms[2] = Square(to.gradient);
  }

  HOST_DEVICE void SetSums(int phase, const double* sums) {
    if (phase == 0) {
      if (sums[0] != 0) inverse_norm = Bounded<T>(1 / SquareRoot(sums[0]));
      return;
    }
    step_of_mean = Bounded<T>(mean_rate * ratio(sums[0], sums[1]));
    step_of_gradient = Bounded<T>(gradient_rate * ratio(sums[0], sums[2]));
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    const Directions to = DirectionsOf(w, g, states);
    return w - (step_of_mean * to.mean + step_of_gradient * to.gradient);
  }

  struct Directions {
    T mean;      // u
    T gradient;  // n
  };

  // Returns the directions, and updates `states`.
  HOST_DEVICE Directions DirectionsOf(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v] = states;
    const T normal = gradient.Clipped(gradient.rescale * g * inverse_norm);
    moments.Update(normal, m, v);
    // 1 / d
    const T factor = Quotient(T(1), moments.Denominator(variance_scale * v));
    const T decay = weight_decay * w;
    return {mean_scale * m * factor + decay, normal * factor + decay};
  }

  double mean_rate;
  double gradient_rate;
  TrustRatio ratio;
  T inverse_norm;
  T step_of_mean;
  T step_of_gradient;
  T weight_decay;
  T mean_scale;
  T variance_scale;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_LANS_H_
