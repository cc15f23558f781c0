#include "kernels/ops/arithmetic.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

constexpr int64_t kMaxI64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinI64 = std::numeric_limits<int64_t>::min();

TEST(ArithmeticTest, IntegerSumsWrap) {
  EXPECT_EQ(Add<int8_t>(127, 1), -128);
  EXPECT_EQ(Add<uint8_t>(255, 2), 1);
  EXPECT_EQ(Add<int16_t>(-32768, -1), 32767);
  EXPECT_EQ(Add<int32_t>(2147483647, 1), -2147483647 - 1);
  EXPECT_EQ(Add<int64_t>(kMaxI64, 1), kMinI64);
}

TEST(ArithmeticTest, IntegerProductsWrap) {
  EXPECT_EQ(Multiply<int8_t>(64, 2), -128);
  EXPECT_EQ(Multiply<uint8_t>(255, 255), 1);
  EXPECT_EQ(Multiply<int16_t>(-32768, -1), -32768);
  EXPECT_EQ(Multiply<int32_t>(65536, 65537), 65536);
  EXPECT_EQ(Multiply<int64_t>(kMaxI64, 2), -2);
}

TEST(ArithmeticTest, BoolIsLogical) {
  constexpr auto kOther = static_cast<Bool>(2);

  EXPECT_EQ(Add(Bool::kFalse, Bool::kFalse), Bool::kFalse);
  EXPECT_EQ(Add(Bool::kTrue, kOther), Bool::kTrue);
  EXPECT_EQ(Add(Bool::kFalse, kOther), Bool::kTrue);
  EXPECT_EQ(Multiply(kOther, Bool::kTrue), Bool::kTrue);
  EXPECT_EQ(Multiply(kOther, Bool::kFalse), Bool::kFalse);
}

TEST(ArithmeticTest, FloatsFollowIeee754) {
  EXPECT_EQ(Add(0x1p24f, 1.0f), 0x1p24f);
  EXPECT_EQ(Add(0x1p24, 1.0), 0x1p24 + 1);
  EXPECT_EQ(Multiply(3.0f, 0.5f), 1.5f);
  EXPECT_EQ(SquareRoot(2.0), 0x1.6a09e667f3bcdp+0);
  EXPECT_EQ(SquareRoot(2.0f), 0x1.6a09e6p+0f);
  EXPECT_TRUE(std::isnan(SquareRoot(-1.0f)));
}

}  // namespace
}  // namespace tensorkv::ops
