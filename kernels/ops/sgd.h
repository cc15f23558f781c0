// The rule `sgd` without momentum: w <- w - lr (G + wd w).

#ifndef TENSORKV_KERNELS_OPS_SGD_H_
#define TENSORKV_KERNELS_OPS_SGD_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct Sgd {
  static constexpr int kNumStates = 0;

  // hyperparameters: learning_rate, momentum (not used), weight_decay,
  // rescale_grad, clip_gradient.
  static Sgd Create(const double* hyperparameters, uint64_t /*update_count*/) {
    const double* h = hyperparameters;
    return {.learning_rate = static_cast<T>(h[0]),
            .weight_decay = static_cast<T>(h[2]),
            .gradient = Gradient<T>::Create(h[3], h[4])};
  }

  HOST_DEVICE T operator()(T w, T g) const {
    return w - learning_rate * (gradient(g) + weight_decay * w);
  }

  T learning_rate;
  T weight_decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_SGD_H_
