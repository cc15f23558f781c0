#include "kernels/ops/moments.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

TEST(MomentsTest, MeanAndVarianceDecay) {
  const auto moments = Moments<double>::Create(0.5, 0.75, 0.125);
  double m = 2;
  double v = 4;

  moments.Update(/*g=*/4, m, v);

  EXPECT_EQ(m, 3);
  EXPECT_EQ(v, 7);
  EXPECT_EQ(moments.Denominator(4), 2.125);
}

TEST(MomentsTest, BiasCorrectionFadesWithTheUpdates) {
  EXPECT_EQ(BiasCorrection(0.5, 0.75, 1), 1);
  EXPECT_EQ(BiasCorrection(0.5, 0.75, 2), std::sqrt(0.4375) / 0.75);
  EXPECT_EQ(BiasCorrection(0, 0, 1), 1);
  EXPECT_EQ(BiasCorrection(0.9, 0.999, uint64_t{1} << 40), 1);
}

}  // namespace
}  // namespace tensorkv::ops
