// The rule `nadam`:
//
//   g' = G + wd w; m, v as adam
//   mu_i = b1 (1 - 0.96^(i momentum_decay) / 2); P = mu_1 ... mu_t
//   w <- w - lr ((1 - mu_t) / (1 - P) g' + mu_t+1 / (1 - P mu_t+1) m)
//                / (sqrt(v / (1 - b2^t)) + eps)
//
// P follows from the key's own t and from the hyperparameters as they now are,
// so that it is no state, and that keys do not depend on one another.

#ifndef TENSORKV_KERNELS_OPS_NADAM_H_
#define TENSORKV_KERNELS_OPS_NADAM_H_

#include <math.h>
#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/gradient.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/moments.h"
#include "kernels/ops/rule_parameters.h"

namespace tensorkv::ops {

// mu_t, mu_t+1 and P.
struct NadamMomenta {
  // Takes up to t steps, until P is so small that it does not count.
  static NadamMomenta At(double beta1, double momentum_decay, uint64_t t) {
    constexpr double kDecay = 0.96;
    // Below, 1 - P is 1.
    constexpr double kNothing = 0x1p-60;
    const auto momentum = [&](uint64_t i) {
      const double exponent = static_cast<double>(i) * momentum_decay;
      return beta1 * (1 - 0.5 * pow(kDecay, exponent));
    };
    double product = 1;
    for (uint64_t i = 1; i <= t && product > kNothing; ++i) {
      const double factor = momentum(i);
      if (factor == beta1) {  // and so are those that follow
        product *= Power(beta1, t - i + 1);
        break;
      }
      product *= factor;
    }
    return {momentum(t), momentum(t + 1), product};
  }

  double present;
  double next;
  double product;
};

// Returns the new value of one element and updates its states.
template <typename T>
struct Nadam {
  static constexpr int kNumStates = 2;

  // own: beta1, beta2, epsilon, momentum_decay.
  static Nadam Create(const RuleParameters& p) {
    const NadamMomenta momenta =
        NadamMomenta::At(p.own[0], p.own[3], p.update_count);
    const double next = momenta.product * momenta.next;
    return {.gradient_rate =
                static_cast<T>(p.learning_rate * (1 - momenta.present) /
                               (1 - momenta.product)),
            .mean_rate =
                static_cast<T>(p.learning_rate * momenta.next / (1 - next)),
            .correction = static_cast<T>(1 - Power(p.own[1], p.update_count)),
            .weight_decay = static_cast<T>(p.weight_decay),
            .moments = Moments<T>::Create(p.own[0], p.own[1], p.own[2]),
            .gradient = Gradient<T>::Create(p)};
  }

  HOST_DEVICE T operator()(T w, T g, T (&states)[kNumStates]) const {
    auto& [m, v] = states;
    const T decayed = gradient(g) + weight_decay * w;
    moments.Update(decayed, m, v);
    const T denominator = SquareRoot(v / correction) + moments.epsilon;
    return w - Quotient(gradient_rate * decayed + mean_rate * m, denominator);
  }

  T gradient_rate;
  T mean_rate;
  T correction;
  T weight_decay;
  Moments<T> moments;
  Gradient<T> gradient;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_NADAM_H_
