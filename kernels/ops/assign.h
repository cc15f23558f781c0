// The rule `assign`: w <- g.

#ifndef TENSORKV_KERNELS_OPS_ASSIGN_H_
#define TENSORKV_KERNELS_OPS_ASSIGN_H_

#include <stdint.h>

#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns the new value of one element. Does not look at `w`.
template <typename T>
struct Assign {
  static constexpr int kNumStates = 0;

  static Assign Create(const RuleParameters&) { return {}; }

  HOST_DEVICE T operator()(T /*w*/, T g) const { return g; }
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ASSIGN_H_
