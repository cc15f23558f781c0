// What every optimizer does to the incoming gradient first.

#ifndef TENSORKV_KERNELS_OPS_GRADIENT_H_
#define TENSORKV_KERNELS_OPS_GRADIENT_H_

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// G = min(max(rescale g, -clip), clip); NaN stays NaN.
template <typename T>
struct Gradient {
  static Gradient Create(const RuleParameters& p) {
    return {.rescale = static_cast<T>(p.rescale_grad),
            .clip = ClipBound<T>(p.clip_gradient)};
  }

  HOST_DEVICE T operator()(T g) const { return Clipped(rescale * g); }

  HOST_DEVICE T Clipped(T scaled) const { return Clip(scaled, clip); }

  T rescale;
  T clip;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_GRADIENT_H_
