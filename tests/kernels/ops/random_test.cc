#include "kernels/ops/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// The known answers of the authors' library, Random123.
TEST(RandomTest, PhiloxGivesTheKnownAnswers) {
  EXPECT_THAT(Philox<7>(0, 0, 0).words,
              ElementsAre(0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48));
  EXPECT_THAT(Philox<10>(0, 0, 0).words,
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox<10>(~0ull, ~0ull, ~0ull).words,
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox<10>(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88)
          .words,
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// What the library makes of the same bits, in more bits than T has.
template <typename T>
double ErrorOfPair(uint32_t radius_bits, uint32_t angle_bits) {
  const NormalPair<T> pair = BoxMuller<T>(radius_bits, angle_bits);
  const T share = (static_cast<T>(static_cast<int32_t>(radius_bits >> 1)) +
                   static_cast<T>(0.5)) *
                  static_cast<T>(0x1p-31);
  const long double radius =
      std::sqrt(-2 * std::log(static_cast<long double>(share)));
  // Around the eighth of a turn on either side of four directions.
  const auto rest = static_cast<int32_t>(angle_bits << 2);
  const long double angle =
      M_PIl / 2 * (rest * 0x1p-32L + (angle_bits >> 31) * 2);
  long double cosine = radius * std::cos(angle);
  long double sine = radius * std::sin(angle);
  if ((angle_bits & 0x40000000) != 0) std::swap(cosine, sine);
  const long double error =
      std::max(std::abs(pair.first - cosine), std::abs(pair.second - sine));
  return static_cast<double>(error / std::max(radius, 1e-9L));
}

TEST(RandomTest, PairsAreThoseOfBoxAndMuller) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const RandomWords random = Philox(1, 2, i);
    // Radii of all sizes: the bits of small shares, too.
    const uint32_t radius = random.words[0] >> i % 32;
    EXPECT_LT(ErrorOfPair<float>(radius, random.words[1]), 4e-7) << i;
    EXPECT_LT(ErrorOfPair<double>(radius, random.words[1]), 1e-15) << i;
  }
  for (const uint32_t angle :
       {0u, 0x1fffffffu, 0x20000000u, 0x40000000u, 0x80000000u, 0xffffffffu}) {
    EXPECT_LT(ErrorOfPair<float>(0, angle), 4e-7) << angle;
    EXPECT_LT(ErrorOfPair<double>(~0u, angle), 1e-15) << angle;
  }
}

// Each of 16 equal angles is as likely as any other.
TEST(RandomTest, PairsPointEverywhere) {
  constexpr int kCount = 64'000;
  constexpr int kAngles = 16;
  int counts[kAngles] = {};
  for (uint32_t i = 0; i < kCount; ++i) {
    const NormalPair<double> pair =
        BoxMuller<double>(0x12345678, i * (0xffffffffu / kCount));
    const double turn = std::atan2(pair.second, pair.first) / (2 * M_PI) + 0.5;
    ++counts[static_cast<int>(turn * kAngles) % kAngles];
  }
  for (const int count : counts) EXPECT_NEAR(count, kCount / kAngles, 2);
}

TEST(RandomTest, NormalNumbersHaveTheirMoments) {
  constexpr int kCount = 100'000;
  constexpr NormalNoise<float> kNoise = {.seed = 1, .update_count = 2};
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  double neighbours = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = kNoise(i);
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    neighbours += x * kNoise(i + kNormalLanes);
  }

  EXPECT_THAT(sum / kCount, DoubleNear(0, 0.015));
  EXPECT_THAT(squares / kCount, DoubleNear(1, 0.025));
  EXPECT_THAT(fourths / kCount, DoubleNear(3, 0.2));
  EXPECT_THAT(neighbours / kCount, DoubleNear(0, 0.015));
}

TEST(RandomTest, EveryPartChangesTheNumber) {
  std::set<double> numbers = {NormalNoise<double>{2, 2}(3),
                              NormalNoise<double>{1, 3}(3)};
  for (uint64_t i = 0; i < 1000; ++i) {
    numbers.insert(NormalNoise<double>{1, 2}(i));
  }
  EXPECT_EQ(numbers.size(), 1002u);
}

}  // namespace
}  // namespace tensorkv::ops
