// The rule `accumulate`: w <- w + scale g.

#ifndef TENSORKV_KERNELS_OPS_ACCUMULATE_H_
#define TENSORKV_KERNELS_OPS_ACCUMULATE_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Returns `scale` as a T: integers of less than 64 bits wrap, and a Bool is
// whether it is not 0.
template <typename T>
HOST_DEVICE T ScaleAs(double scale) {
  return static_cast<T>(static_cast<int64_t>(scale));
}
template <>
HOST_DEVICE float ScaleAs(double scale) {
  return static_cast<float>(scale);
}
template <>
HOST_DEVICE double ScaleAs(double scale) {
  return scale;
}
template <>
HOST_DEVICE Bool ScaleAs(double scale) {
  return scale != 0 ? Bool::kTrue : Bool::kFalse;
}

// Returns the new value of one element. Integers wrap, Bool is logical.
template <typename T>
struct Accumulate {
  static constexpr int kNumStates = 0;

  // own: scale. For integers a whole number that int64_t holds.
  static Accumulate Create(const RuleParameters& p) {
    return {.scale = ScaleAs<T>(p.own[0])};
  }

  HOST_DEVICE T operator()(T w, T g) const {
    return Add(w, Multiply(scale, g));
  }

  T scale;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ACCUMULATE_H_
