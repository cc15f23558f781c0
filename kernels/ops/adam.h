// The rule `adam`:
//
//   g' = G + wd w
//   m <- b1 m + (1 - b1) g'
//   v <- b2 v + (1 - b2) g'^2
//   w <- w - lr_t m / (sqrt(v) + eps)

#ifndef TENSORKV_KERNELS_OPS_ADAM_H_
#define TENSORKV_KERNELS_OPS_ADAM_H_

#include <stdint.h>

#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"

namespace tensorkv::ops {

// Returns the new value of one element and updates its states `m` and `v`.
template <typename T>
struct Adam {
  static constexpr int kNumStates = 2;

  // hyperparameters: learning_rate, beta1, beta2, epsilon, weight_decay,
  // rescale_grad, clip_gradient. update_count: t.
  static Adam Create(const double* hyperparameters, uint64_t update_count) {
    const double* h = hyperparameters;
    return {.learning_rate_t =
                static_cast<T>(h[0] * BiasCorrection(h[1], h[2], update_count)),
            .weight_decay = static_cast<T>(h[4]),
            .moments = Moments<T>::Create(h[1], h[2], h[3]),
            .gradient = Gradient<T>::Create(h[5], h[6])};
  }

  HOST_DEVICE T operator()(T w, T g, T& m, T& v) const {
    moments.Update(gradient(g) + weight_decay * w, m, v);
    return w - learning_rate_t * m / moments.Denominator(v);
  }

  T learning_rate_t;
  T weight_decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ADAM_H_
