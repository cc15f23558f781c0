#include "kernels/ops/accumulate.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

template <typename T>
Accumulate<T> WithScale(double scale) {
  return Accumulate<T>::Create({.own = &scale});
}

TEST(AccumulateTest, IntegersWrap) {
  EXPECT_EQ(WithScale<int8_t>(2)(100, 100), 44);
  EXPECT_EQ(WithScale<uint8_t>(-1)(1, 2), 255);
  EXPECT_EQ(WithScale<int16_t>(65537)(1, 1), 2);
}

TEST(AccumulateTest, BoolIsOrWithoutScaleZero) {
  EXPECT_EQ(WithScale<Bool>(1)(Bool::kFalse, Bool::kTrue), Bool::kTrue);
  EXPECT_EQ(WithScale<Bool>(1)(Bool::kTrue, Bool::kFalse), Bool::kTrue);
  EXPECT_EQ(WithScale<Bool>(0)(Bool::kFalse, Bool::kTrue), Bool::kFalse);
}

}  // namespace
}  // namespace tensorkv::ops
