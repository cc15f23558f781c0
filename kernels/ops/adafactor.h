// The rule `adafactor`, for a key as a matrix of n rows:
//
//   b2 = 1 - t^-beta2_decay
//   r <- b2 r + (1 - b2) mean of (G^2 + epsilon1) over the row
//   c <- b2 c + (1 - b2) mean of (G^2 + epsilon1) over the column
//   u = G / sqrt(r c / mean of r)
//   a = min(lr, 1 / sqrt(t)) max(epsilon2, rms(w)) / max(1, rms(u) / d)
//   w <- w - lr wd w - a u

#ifndef TENSORKV_KERNELS_OPS_ADAFACTOR_H_
#define TENSORKV_KERNELS_OPS_ADAFACTOR_H_

#include <math.h>
#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/rule_parameters.h"
#include "kernels/ops/trust_ratio.h"

namespace tensorkv::ops {

// Returns the new value of one element.
template <typename T>
struct Adafactor {
  static constexpr int kNumStates = 2;
  static constexpr int kRowState = 0;
  static constexpr int kColumnState = 1;
  static constexpr int kNumPhases = 1;
  static constexpr int kNumSums = 3;

  // own: beta2_decay, epsilon1, epsilon2, clip_threshold.
  static Adafactor Create(const RuleParameters& p) {
    const double t = static_cast<double>(p.update_count);
    const double most = 1 / sqrt(t);
    return {.num_elements = static_cast<double>(p.num_elements),
            .rate = p.learning_rate < most ? p.learning_rate : most,
            .rest2 = pow(t, -p.own[0]),
            .epsilon1 = p.own[1],
            .epsilon2 = p.own[2],
            .clip_threshold = p.own[3],
            .step = 0,
            .decay = static_cast<T>(p.learning_rate * p.weight_decay),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE double RowTerm(T, T g) const {
    return Square(gradient(g)) + epsilon1;
  }
  HOST_DEVICE T UpdateRow(double sum, uint64_t count, T r) const {
    const double mean = sum / static_cast<double>(count);
    return static_cast<T>((1 - rest2) * static_cast<double>(r) + rest2 * mean);
  }
  HOST_DEVICE T UpdateColumn(double sum, uint64_t count, T c) const {
    return UpdateRow(sum, count, c);
  }

  // Roots are taken once per row and column.
  HOST_DEVICE T OfRow(T r) const { return SquareRoot(r); }
  HOST_DEVICE T OfColumn(T c) const { return SquareRoot(c); }

  HOST_DEVICE void Terms(int, T w, T g, const T (&roots)[kNumStates],
                         double (&terms)[kNumSums]) const {
    terms[0] = Square(w);
    terms[1] = Square(Direction(g, roots));
    terms[2] = Square(roots[kRowState]);
  }

  HOST_DEVICE void SetSums(int, const double* sums) {
    const double rms_of_w = SquareRoot(sums[0] / num_elements);
    const double root_of_mean = SquareRoot(sums[2] / num_elements);
    const double rms_of_u = root_of_mean * SquareRoot(sums[1] / num_elements);
    const double excess = rms_of_u / clip_threshold;
    const double scale = rms_of_w > epsilon2 ? rms_of_w : epsilon2;
    step =
        static_cast<T>(rate * scale * root_of_mean / (excess > 1 ? excess : 1));
  }

  HOST_DEVICE T operator()(T w, T g, const T (&roots)[kNumStates]) const {
    return w - (decay * w + step * Direction(g, roots));
  }

  // Returns u / sqrt(mean of r); that mean is known after the phase. 0 where no
  // gradient has been other than 0.
  HOST_DEVICE T Direction(T g, const T (&roots)[kNumStates]) const {
    const T deviation = roots[kRowState] * roots[kColumnState];
    return deviation == 0 ? T() : gradient(g) / deviation;
  }

  double num_elements;
  double rate;
  double rest2;
  double epsilon1;
  double epsilon2;
  double clip_threshold;
  T step;
  T decay;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_ADAFACTOR_H_
