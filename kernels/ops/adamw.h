// The rule `adamw`:
//
//   m <- b1 m + (1 - b1) G
//   v <- b2 v + (1 - b2) G^2
//   w <- w - lr wd w - lr / c1 m / (sqrt(v) / sqrt(c2) + eps)
//
// where c1 = 1 - b1^t and c2 = 1 - b2^t, or 1 without bias correction. The form
// of Apache MXNet scales the decay like the step and leaves epsilon out of the
// correction:
//
//   w <- w - lr sqrt(c2) / c1 (m / (sqrt(v) + eps) + wd w)

#ifndef TENSORKV_KERNELS_OPS_ADAMW_H_
#define TENSORKV_KERNELS_OPS_ADAMW_H_

#include <math.h>
#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct AdamW {
  static constexpr int kNumStates = 2;

  // own: beta1, beta2, epsilon, correct_bias, mxnet_form.
  static AdamW Create(const RuleParameters& p) {
    const bool corrects = p.own[3] != 0;
    const bool is_mxnets = p.own[4] != 0;
    const uint64_t t = p.update_count;
    const double c1 = corrects ? 1 - Power(p.own[0], t) : 1;
    const double c2 = corrects ? sqrt(1 - Power(p.own[1], t)) : 1;
    const double rate = p.learning_rate / c1 * (is_mxnets ? c2 : 1);
    const double decaying = is_mxnets ? rate : p.learning_rate;
    return {.rate = static_cast<T>(rate),
            .root = static_cast<T>(is_mxnets ? 1 : c2),
            .decay = static_cast<T>(decaying * p.weight_decay),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v] = states;
    moments.Update(gradient(g), m, v);
    const T denominator = SquareRoot(v) / root + moments.epsilon;
    return w - (Quotient(rate * m, denominator) + decay * w);
  }

  T rate;
  // The divisor of sqrt(v).
  T root;
  // The share of w that is subtracted.
  T decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ADAMW_H_
