// The rule `radam`, adam whose first steps, of which the variance is not known
// yet, are those of momentum:
//
//   g' = G + wd w
//   m <- b1 m + (1 - b1) g'
//   v <- b2 v + (1 - b2) g'^2
//   p = p' - 2 t b2^t / (1 - b2^t), with p' = 2 / (1 - b2) - 1
//   p > 5: w <- w - lr r sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)
//          r = sqrt((p - 4) (p - 2) p' / ((p' - 4) (p' - 2) p))
//   else:  w <- w - lr / (1 - b1^t) m

#ifndef TENSORKV_KERNELS_OPS_RADAM_H_
#define TENSORKV_KERNELS_OPS_RADAM_H_

#include <math.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states.
template <typename T>
struct RAdam {
  static constexpr int kNumStates = 2;

  // own: beta1, beta2, epsilon.
  static RAdam Create(const RuleParameters& p) {
    const auto t = static_cast<double>(p.update_count);
    const double power2 = Power(p.own[1], p.update_count);
    const double longest = 2 / (1 - p.own[1]) - 1;
    const double length = longest - 2 * t * power2 / (1 - power2);
    const bool is_rectified = length > 5;
    const double rectification =
        sqrt((length - 4) * (length - 2) * longest /
             ((longest - 4) * (longest - 2) * length) * (1 - power2));
    const double rate = p.learning_rate / (1 - Power(p.own[0], p.update_count));
    return {.rate = static_cast<T>(is_rectified ? rate * rectification : rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .is_rectified = is_rectified,
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v] = states;
    moments.Update(gradient(g) + weight_decay * w, m, v);
    const T denominator = moments.Denominator(v);
    return w - Quotient(rate * m, is_rectified ? denominator : T(1));
  }

  T rate;
  T weight_decay;
  bool is_rectified;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_RADAM_H_
