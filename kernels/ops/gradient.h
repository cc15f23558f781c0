// The rescaling and clipping of gradients that every optimizer begins with.

#ifndef TENSORKV_KERNELS_OPS_GRADIENT_H_
#define TENSORKV_KERNELS_OPS_GRADIENT_H_

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// Rules that divide by the learning rate treat a lower one as 0: the quotient
// would be infinite.
inline constexpr double kLowestRate = 1e-30;

// G = min(max(rescale g, -clip), clip); NaN stays NaN. Every functor of an
// optimizer has one as its member `gradient`.
template <typename T>
struct Gradient {
  static Gradient Create(const RuleParameters& p) {
    return {.rescale = static_cast<T>(p.rescale_grad),
            .clip = ClipBound<T>(p.clip_gradient),
            .is_frozen = p.learning_rate == 0};
  }

  // Returns G.
  HOST_DEVICE T operator()(T g) const { return Clipped(rescale * g); }

  // Returns a gradient that has been rescaled already, clipped.
  HOST_DEVICE T Clipped(T scaled) const { return Clip(scaled, clip); }

  T rescale;
  T clip;
  // The learning rate is 0: whatever the functor returns, the value stays.
  bool is_frozen;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_GRADIENT_H_
