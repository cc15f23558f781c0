#include "kernels/ops/lans.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

// The mean after the first update of a zero key by `g`, where the gradient's
// norm has that square.
float MeanAfter(double square, float g) {
  constexpr double kOwn[] = {0.5, 0.999, 1e-6, -1, -1};
  auto lans = Lans<float>::Create({.learning_rate = 1, .own = kOwn});
  lans.SetSums(0, &square);
  float states[2] = {};
  lans.DirectionsOf(/*w=*/0, g, states);
  return states[0];
}

TEST(LansTest, GradientIsOfUnitNorm) {
  EXPECT_EQ(MeanAfter(/*square=*/16, /*g=*/3), 0.375f);
  EXPECT_EQ(MeanAfter(/*square=*/0, /*g=*/0), 0);
}

// One over such a norm is infinite in f32.
TEST(LansTest, TinyNormsMakeNoNan) {
  EXPECT_EQ(MeanAfter(/*square=*/1e-80, /*g=*/0), 0);
  EXPECT_TRUE(std::isfinite(MeanAfter(/*square=*/1e-80, /*g=*/1e-40f)));
}

TEST(LansTest, NanStaysNan) {
  EXPECT_TRUE(std::isnan(MeanAfter(/*square=*/NAN, /*g=*/1)));
}

}  // namespace
}  // namespace tensorkv::ops
