#include "kernels/ops/adamw.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

AdamW<double> WithCorrectBias(double correct_bias) {
  const double hyperparameters[] = {0.5,  0.5, 0.75, 0.125,
                                    0.25, 4,   -1,   correct_bias};
  return AdamW<double>::Create(hyperparameters, 2);
}

TEST(AdamWTest, DecayStaysOutOfTheMoments) {
  const AdamW<double> adamw = WithCorrectBias(0);
  double m = 2;
  double v = 4;

  const double w = adamw(8, 1, m, v);

  EXPECT_EQ(m, 3);
  EXPECT_EQ(v, 7);
  EXPECT_DOUBLE_EQ(w, 8 - 0.5 * (3 / (std::sqrt(7.0) + 0.125) + 0.25 * 8));
}

TEST(AdamWTest, BiasCorrectionScalesTheLearningRate) {
  EXPECT_EQ(WithCorrectBias(0).learning_rate_t, 0.5);
  EXPECT_DOUBLE_EQ(WithCorrectBias(1).learning_rate_t,
                   0.5 * std::sqrt(0.4375) / 0.75);
}

}  // namespace
}  // namespace tensorkv::ops
