#include "kernels/ops/gradient.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

template <typename T>
Gradient<T> GradientOf(double rescale_grad, double clip_gradient) {
  return Gradient<T>::Create(
      {.rescale_grad = rescale_grad, .clip_gradient = clip_gradient});
}

TEST(GradientTest, RescalesBeforeItClips) {
  const auto gradient = GradientOf<float>(0.5, 2);

  EXPECT_EQ(gradient(3), 1.5f);
  EXPECT_EQ(gradient(5), 2);
  EXPECT_EQ(gradient(-5), -2);
  EXPECT_EQ(gradient(INFINITY), 2);
}

TEST(GradientTest, NegativeClipIsOff) {
  const auto gradient = GradientOf<double>(-2, -1);

  EXPECT_EQ(gradient(1e300), -2e300);
  EXPECT_EQ(gradient(INFINITY), -INFINITY);
}

TEST(GradientTest, ClipOfZeroLeavesNothing) {
  const auto gradient = GradientOf<float>(1, 0);

  EXPECT_EQ(gradient(7), 0);
  EXPECT_EQ(gradient(-7), 0);
}

TEST(GradientTest, NanStaysNan) {
  EXPECT_TRUE(std::isnan(GradientOf<float>(1, 2)(NAN)));
  EXPECT_TRUE(std::isnan(GradientOf<float>(1, -1)(NAN)));
}

}  // namespace
}  // namespace tensorkv::ops
