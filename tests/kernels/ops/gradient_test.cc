#include "kernels/ops/gradient.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

TEST(GradientTest, RescalesBeforeItClips) {
  const auto gradient = Gradient<float>::Create(0.5, 2);

  EXPECT_EQ(gradient(3), 1.5f);
  EXPECT_EQ(gradient(5), 2);
  EXPECT_EQ(gradient(-5), -2);
  EXPECT_EQ(gradient(INFINITY), 2);
}

TEST(GradientTest, NegativeClipIsOff) {
  const auto gradient = Gradient<double>::Create(-2, -1);

  EXPECT_EQ(gradient(1e300), -2e300);
  EXPECT_EQ(gradient(INFINITY), -INFINITY);
}

TEST(GradientTest, ClipOfZeroLeavesNothing) {
  const auto gradient = Gradient<float>::Create(1, 0);

  EXPECT_EQ(gradient(7), 0);
  EXPECT_EQ(gradient(-7), 0);
}

TEST(GradientTest, NanStaysNan) {
  EXPECT_TRUE(std::isnan(Gradient<float>::Create(1, 2)(NAN)));
  EXPECT_TRUE(std::isnan(Gradient<float>::Create(1, -1)(NAN)));
}

}  // namespace
}  // namespace tensorkv::ops
