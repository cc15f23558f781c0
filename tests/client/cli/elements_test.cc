#include "client/cli/elements.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasElements;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Vector;

class FloatElementsTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, FloatElementsTest,
                         ::testing::Values(DType::kF32, DType::kF64,
                                           DType::kF16, DType::kBF16,
                                           DType::kF8E4M3FN, DType::kF8E5M2));

TEST_P(FloatElementsTest, AreConvertedAndBack) {
  const Tensor tensor = Vector({1, -0.5, 12}, GetParam());

  ASSERT_OK_AND_ASSIGN(const Tensor wide, ConvertedTo(DType::kF64, tensor));
  EXPECT_THAT(wide, HasElements(std::vector<double>{1, -0.5, 12}));
  ASSERT_OK_AND_ASSIGN(const Tensor back, ConvertedTo(GetParam(), wide));
  EXPECT_EQ(back.dtype(), GetParam());
  EXPECT_THAT(back, HasElements(std::vector<double>{1, -0.5, 12}));
}

TEST(ConvertedToTest, IntegersAreNotConverted) {
  EXPECT_THAT(ConvertedTo(DType::kF32, Vector({1}, DType::kI8)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(FloatElementsTest, HaveAFractionAsText) {
  EXPECT_EQ(ElementText(Vector({-0.5}, GetParam()), 0), "-0.5");
  EXPECT_EQ(ElementText(Vector({2}, GetParam()), 0), "2.0");
}

struct TextCase {
  double value;
  DType dtype;
  std::string text;
};

class ElementTextTest : public ::testing::TestWithParam<TextCase> {};
INSTANTIATE_TEST_SUITE_P(
    , ElementTextTest,
    ::testing::ValuesIn(std::vector<TextCase>{
        // As few digits as the dtype needs.
        {1.0 / 3, DType::kF64, "0.3333333333333333"},
        {1.0 / 3, DType::kF32, "0.33333334"},
        {1.0 / 3, DType::kF16, "0.3333"},
        {0.1, DType::kBF16, "0.1"},
        // 0.09375, whose neighbours are 0.078125 and 0.109375.
        {0.1, DType::kF8E5M2, "0.09"},
        {65504, DType::kF16, "65500.0"},
        {123456792, DType::kF32, "123456790.0"},
        // Where exponents begin.
        {1e15, DType::kF64, "1000000000000000.0"},
        {1e16, DType::kF64, "1e+16"},
        {1.2345e20, DType::kF32, "1.2345e+20"},
        {0.0001, DType::kF64, "0.0001"},
        {1e-5, DType::kF32, "1e-05"},
        {1e300, DType::kF64, "1e+300"},
        {-0.0, DType::kF64, "-0.0"},
        {std::numeric_limits<double>::infinity(), DType::kF32, "inf"},
        {-std::numeric_limits<double>::infinity(), DType::kF32, "-inf"},
        {std::numeric_limits<double>::quiet_NaN(), DType::kF16, "nan"},
        // Integers keep their sign, or have none.
        {-128, DType::kI8, "-128"},
        {127, DType::kI16, "127"},
        {-1, DType::kI32, "-1"},
        {-1, DType::kI64, "-1"},
        {255, DType::kU8, "255"},
        {65535, DType::kU16, "65535"},
        {4294967295.0, DType::kU32, "4294967295"},
        {0x1p63, DType::kU64, "9223372036854775808"}}));

TEST_P(ElementTextTest, IsTheShortest) {
  EXPECT_EQ(ElementText(Vector({GetParam().value}, GetParam().dtype), 0),
            GetParam().text);
}

TEST(ElementTextOfBoolTest, AnyByteButZeroIsTrue) {
  const Tensor tensor =
      *Tensor::CopyOf(DType::kBool, {2}, std::string("\x07\x00", 2).data());

  EXPECT_EQ(ElementText(tensor, 0), "true");
  EXPECT_EQ(ElementText(tensor, 1), "false");
}

}  // namespace
}  // namespace tensorkv
