#include "kernels/ops/adam.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

// learning_rate, beta1, beta2, epsilon, weight_decay, rescale_grad,
// clip_gradient
constexpr double kHyperparameters[] = {0.5, 0.5, 0.75, 0.125, 0.25, 2, -1};

TEST(AdamTest, DecayEntersTheMoments) {
  const auto adam = Adam<double>::Create(kHyperparameters, 1);
  double m = 2;
  double v = 4;

  const double w = adam(8, 1, m, v);

  // g' = 2 * 1 + 0.25 * 8 = 4; lr_t = 0.5 * sqrt(0.25) / 0.5
  EXPECT_EQ(m, 3);
  EXPECT_EQ(v, 7);
  EXPECT_DOUBLE_EQ(w, 8 - 0.5 * 3 / (std::sqrt(7.0) + 0.125));
}

TEST(AdamTest, LearningRateFollowsTheUpdateCount) {
  const auto adam = Adam<float>::Create(kHyperparameters, 2);

  EXPECT_FLOAT_EQ(adam.learning_rate_t, 0.5 * std::sqrt(0.4375) / 0.75);
}

}  // namespace
}  // namespace tensorkv::ops
