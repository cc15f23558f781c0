#include "kernels/ops/random.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// The known answers of the authors' library, Random123.
TEST(RandomTest, PhiloxGivesTheKnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0).words,
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(~0ull, ~0ull, ~0ull).words,
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88).words,
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(RandomTest, LogarithmAndCosineAreThoseOfTheLibrary) {
  for (double x = 0x1p-33; x < 1; x = x * 1.01 + 1e-9) {
    EXPECT_THAT(Logarithm(x), DoubleNear(std::log(x), 1e-14)) << x;
    EXPECT_THAT(CosineOfTurns(x), DoubleNear(std::cos(2 * M_PI * x), 1e-14))
        << x;
  }
}

TEST(RandomTest, NormalNumbersHaveTheirMoments) {
  constexpr int kCount = 100'000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = Normal(/*seed=*/1, /*update_count=*/2, i);
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }

  EXPECT_THAT(sum / kCount, DoubleNear(0, 0.015));
  EXPECT_THAT(squares / kCount, DoubleNear(1, 0.025));
  EXPECT_THAT(fourths / kCount, DoubleNear(3, 0.2));
}

TEST(RandomTest, EveryPartChangesTheNumber) {
  EXPECT_NE(Normal(1, 2, 3), Normal(2, 2, 3));
  EXPECT_NE(Normal(1, 2, 3), Normal(1, 3, 3));
  EXPECT_NE(Normal(1, 2, 3), Normal(1, 2, 4));
}

}  // namespace
}  // namespace tensorkv::ops
