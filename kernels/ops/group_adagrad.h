// The rule `groupadagrad`, which has one h for each row:
//
//   g' = G + wd w
//   h <- h + mean of g'^2 over the row
//   w <- w - lr g' / (sqrt(h) + eps)

#ifndef TENSORKV_KERNELS_OPS_GROUP_ADAGRAD_H_
#define TENSORKV_KERNELS_OPS_GROUP_ADAGRAD_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/ops/trust_ratio.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct GroupAdaGrad {
  static constexpr int kNumStates = 1;
  static constexpr int kRowState = 0;

  // own: epsilon.
  static GroupAdaGrad Create(const RuleParameters& p) {
    return {.learning_rate = static_cast<T>(p.learning_rate),
            .weight_decay = static_cast<T>(p.weight_decay),
            .epsilon = static_cast<T>(p.own[0]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE double RowTerm(T w, T g) const { return Square(Decayed(w, g)); }

  HOST_DEVICE T UpdateRow(double sum, uint64_t num_elements, T h) const {
    return h + static_cast<T>(sum / static_cast<double>(num_elements));
  }

  HOST_DEVICE T OfRow(T h) const {
    return Quotient(learning_rate, SquareRoot(h) + epsilon);
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    return w - states[kRowState] * Decayed(w, g);
  }

  HOST_DEVICE T Decayed(T w, T g) const {
    return gradient(g) + weight_decay * w;
  }

  T learning_rate;
  T weight_decay;
  T epsilon;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_GROUP_ADAGRAD_H_
