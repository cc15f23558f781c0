#include "client/cli/elements.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Vector;

class FloatElementsTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, FloatElementsTest,
                         ::testing::Values(DType::kF32, DType::kF64,
                                           DType::kF16, DType::kBF16,
                                           DType::kF8E4M3FN, DType::kF8E5M2));

TEST_P(FloatElementsTest, AreReadExactly) {
  const Tensor tensor = Vector({1, -0.5, 12}, GetParam());

  EXPECT_EQ(FloatAt(tensor, 0), 1);
  EXPECT_EQ(FloatAt(tensor, 1), -0.5);
  EXPECT_EQ(FloatAt(tensor, 2), 12);
}

TEST_P(FloatElementsTest, AreTheirOwnRounding) {
  EXPECT_EQ(RoundedTo(GetParam(), 0.375), 0.375);
}

class IntegerElementsTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, IntegerElementsTest,
                         ::testing::Values(DType::kI8, DType::kI16, DType::kI32,
                                           DType::kI64));

TEST_P(IntegerElementsTest, KeepTheirSign) {
  const Tensor tensor = Vector({-128, 127}, GetParam());

  EXPECT_EQ(IntegerAt(tensor, 0), -128);
  EXPECT_EQ(IntegerAt(tensor, 1), 127);
}

TEST(ElementsTest, UnsignedIntegersHaveNoSign) {
  EXPECT_EQ(IntegerAt(Vector({255}, DType::kU8), 0), 255);
  EXPECT_EQ(IntegerAt(Vector({65535}, DType::kU16), 0), 65535);
  EXPECT_EQ(IntegerAt(Vector({4294967295.0}, DType::kU32), 0), 4294967295);
  EXPECT_EQ(IntegerText(Vector({0x1p63}, DType::kU64), 0),
            "9223372036854775808");
  EXPECT_EQ(IntegerText(Vector({-1}, DType::kI64), 0), "-1");
}

TEST(ElementsTest, AnyByteButZeroIsTrue) {
  const Tensor tensor =
      *Tensor::CopyOf(DType::kBool, {2}, std::string("\x07\x00", 2).data());

  EXPECT_EQ(IntegerAt(tensor, 0), 1);
  EXPECT_EQ(IntegerAt(tensor, 1), 0);
}

TEST(ElementsTest, RoundingIsThatOfTheDType) {
  EXPECT_EQ(RoundedTo(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(RoundedTo(DType::kF32, 0.1), 0.1f);
  EXPECT_EQ(RoundedTo(DType::kF16, 0.1), 0.0999755859375);
}

}  // namespace
}  // namespace tensorkv
