// The rule `average`, a running mean:
//
//   w <- w + weight / (initial_weight + t weight) (rescale_grad g - w)
//
// With initial_weight = 0 the value is the mean of what was pushed.

#ifndef TENSORKV_KERNELS_OPS_AVERAGE_H_
#define TENSORKV_KERNELS_OPS_AVERAGE_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct Average {
  static constexpr int kNumStates = 0;

  // own: weight, initial_weight, rescale_grad.
  static Average Create(const RuleParameters& p) {
    const auto t = static_cast<double>(p.update_count);
    return {.share = static_cast<T>(p.own[0] / (p.own[1] + t * p.own[0])),
            .rescale = static_cast<T>(p.own[2])};
  }

  HOST_DEVICE T operator()(T w, T g) const {
    return w + share * (rescale * g - w);
  }

  T share;
  T rescale;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_AVERAGE_H_
