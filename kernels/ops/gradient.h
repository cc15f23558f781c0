// What every optimizer does to the incoming gradient first.

#ifndef TENSORKV_KERNELS_OPS_GRADIENT_H_
#define TENSORKV_KERNELS_OPS_GRADIENT_H_

#include <math.h>

#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// G = min(max(rescale g, -clip), clip); NaN stays NaN.
template <typename T>
struct Gradient {
  // A negative `clip_gradient` turns clipping off.
  static Gradient Create(double rescale_grad, double clip_gradient) {
    return {
        .rescale = static_cast<T>(rescale_grad),
        .clip = static_cast<T>(clip_gradient < 0 ? HUGE_VAL : clip_gradient)};
  }

  HOST_DEVICE T operator()(T g) const {
    const T scaled = rescale * g;
    const T above = scaled < -clip ? -clip : scaled;
    return above > clip ? clip : above;
  }

  T rescale;
  T clip;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_GRADIENT_H_
