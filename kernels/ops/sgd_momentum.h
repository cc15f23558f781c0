// The rule `sgd` with momentum:
//
//   m <- momentum m - lr (G + wd w)
//   w <- w + m

#ifndef TENSORKV_KERNELS_OPS_SGD_MOMENTUM_H_
#define TENSORKV_KERNELS_OPS_SGD_MOMENTUM_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its state `m`.
template <typename T>
struct SgdMomentum {
  static constexpr int kNumStates = 1;

  // hyperparameters: learning_rate, momentum, weight_decay, rescale_grad,
  // clip_gradient.
  static SgdMomentum Create(const double* hyperparameters,
                            uint64_t /*update_count*/) {
    const double* h = hyperparameters;
    return {.learning_rate = static_cast<T>(h[0]),
            .momentum = static_cast<T>(h[1]),
            .weight_decay = static_cast<T>(h[2]),
            .gradient = Gradient<T>::Create(h[3], h[4])};
  }

  HOST_DEVICE T operator()(T w, T g, T& m) const {
    m = momentum * m - learning_rate * (gradient(g) + weight_decay * w);
    return w + m;
  }

  T learning_rate;
  T momentum;
  T weight_decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SGD_MOMENTUM_H_
