#include "kernels/ops/sgd_momentum.h"

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

TEST(SgdMomentumTest, MomentumCarriesTheScaledGradient) {
  // learning_rate, momentum, weight_decay, rescale_grad, clip_gradient
  constexpr double kHyperparameters[] = {0.5, 0.75, 0.25, 2, -1};
  const auto sgd = SgdMomentum<double>::Create(kHyperparameters, 1);
  double m = 4;

  const double w = sgd(8, 1, m);

  EXPECT_EQ(m, 0.75 * 4 - 0.5 * (2 + 0.25 * 8));
  EXPECT_EQ(w, 8 + m);
}

}  // namespace
}  // namespace tensorkv::ops
