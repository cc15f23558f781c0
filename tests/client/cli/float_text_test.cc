#include "client/cli/float_text.h"

#include <limits>

#include "client/cli/elements.h"
#include "gtest/gtest.h"

// The texts of f16, f32 and f64 are those of NumPy 1.24.

namespace tensorkv {
namespace {

std::string Scalar(double value, DType dtype) {
  return ScalarText(RoundedTo(dtype, value), dtype);
}

TEST(ScalarTextTest, DigitsAreThoseThatTheDTypeNeeds) {
  EXPECT_EQ(Scalar(1.0 / 3, DType::kF64), "0.3333333333333333");
  EXPECT_EQ(Scalar(1.0 / 3, DType::kF32), "0.33333334");
  EXPECT_EQ(Scalar(1.0 / 3, DType::kF16), "0.3333");
  EXPECT_EQ(Scalar(0.1, DType::kBF16), "0.1");
  // 0.09375, whose neighbours are 0.078125 and 0.109375.
  EXPECT_EQ(Scalar(0.1, DType::kF8E5M2), "0.09");
}

TEST(ScalarTextTest, WholeNumbersHaveAFraction) {
  EXPECT_EQ(Scalar(2, DType::kF32), "2.0");
  EXPECT_EQ(Scalar(-0.0, DType::kF64), "-0.0");
  EXPECT_EQ(Scalar(123456792, DType::kF32), "123456790.0");
  EXPECT_EQ(Scalar(65504, DType::kF16), "65500.0");
}

TEST(ScalarTextTest, ExponentsBeginAtTheirBounds) {
  EXPECT_EQ(Scalar(1e15, DType::kF64), "1000000000000000.0");
  EXPECT_EQ(Scalar(1e16, DType::kF64), "1e+16");
  EXPECT_EQ(Scalar(1.2345e20, DType::kF32), "1.2345e+20");
  EXPECT_EQ(Scalar(0.0001, DType::kF64), "0.0001");
  EXPECT_EQ(Scalar(1e-5, DType::kF32), "1e-05");
  EXPECT_EQ(Scalar(1e300, DType::kF64), "1e+300");
}

TEST(ScalarTextTest, NonfiniteAreWords) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(ScalarText(infinity, DType::kF32), "inf");
  EXPECT_EQ(ScalarText(-infinity, DType::kF32), "-inf");
  EXPECT_EQ(ScalarText(infinity - infinity, DType::kF32), "nan");
}

TEST(PositionalTextTest, TrailingZerosAreDropped) {
  EXPECT_EQ(PositionalText(2, DType::kF64, 8), "2.");
  EXPECT_EQ(PositionalText(0.25, DType::kF64, 8), "0.25");
  EXPECT_EQ(PositionalText(0.999999999, DType::kF64, 8), "1.");
  EXPECT_EQ(PositionalText(-1200, DType::kF64, 8), "-1200.");
}

TEST(PositionalTextTest, WholeNumbersAreWrittenInFull) {
  EXPECT_EQ(PositionalText(65504, DType::kF16, 8), "65504.");
}

TEST(ScientificTextTest, FractionAndExponentHaveTheWidthsAskedFor) {
  EXPECT_EQ(ScientificText(1.25e-5, 3, 2), "1.250e-05");
  EXPECT_EQ(ScientificText(1, 0, 3), "1.e+000");
  EXPECT_EQ(ScientificText(-1e-300, 0, 2), "-1.e-300");
}

TEST(ScientificFractionTest, CountsDigitsWorthPrinting) {
  EXPECT_EQ(ScientificFraction(1.25e-5, DType::kF64, 8), 2);
  EXPECT_EQ(ScientificFraction(1.0 / 3, DType::kF64, 8), 8);
  EXPECT_EQ(ScientificFraction(1.0 / 3, DType::kF32, 8), 7);
  EXPECT_EQ(ScientificFraction(0, DType::kF32, 8), 0);
}

}  // namespace
}  // namespace tensorkv
