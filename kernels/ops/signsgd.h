// The rule `signsgd`: w <- (1 - lr (wd + wd_lh)) w - lr sign(g). Rescaling and
// clipping do not matter.

#ifndef TENSORKV_KERNELS_OPS_SIGNSGD_H_
#define TENSORKV_KERNELS_OPS_SIGNSGD_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct SignSgd {
  static constexpr int kNumStates = 0;

  // own: wd_lh.
  static SignSgd Create(const RuleParameters& p) {
    const double decay = p.weight_decay + p.own[0];
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .kept = static_cast<T>(1 - p.learning_rate * decay),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g) const {
    return kept * w - learning_rate * Sign(g);
  }

  T learning_rate;
  // The share of w that is kept.
  T kept;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SIGNSGD_H_
