#include "client/cli/array_text.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tensor_values.h"

// The texts expected are what NumPy 1.24 prints for the same arrays.

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::TensorOf;
using ::tensorkv::testing::Vector;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 0, 1, 2, ...
Tensor Range(Shape shape, double scale, DType dtype) {
  std::vector<double> elements(shape.num_elements());
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = i * scale;
  return TensorOf(shape, elements, dtype);
}

TEST(ArrayTextTest, MatrixHasALinePerRow) {
  EXPECT_EQ(ArrayText(Full({2, 3}, 2)), "[[2. 2. 2.]\n [2. 2. 2.]]");
}

TEST(ArrayTextTest, ThirdDimensionIsSetApartByABlankLine) {
  EXPECT_EQ(ArrayText(Range({2, 2, 2}, 1, DType::kF32)),
            "[[[0. 1.]\n  [2. 3.]]\n\n [[4. 5.]\n  [6. 7.]]]");
  EXPECT_EQ(ArrayText(Full({1, 2, 1, 2}, 0, DType::kI8)),
            "[[[[0 0]]\n\n  [[0 0]]]]");
}

TEST(ArrayTextTest, DecimalPointsAreAligned) {
  EXPECT_EQ(ArrayText(Vector({0.1, 0.25, 1.125})), "[0.1   0.25  1.125]");
  EXPECT_EQ(ArrayText(Vector({-0.0, 0.5})), "[-0.   0.5]");
}

TEST(ArrayTextTest, MoreThanEightDigitsAreRounded) {
  EXPECT_EQ(ArrayText(Vector({1.0 / 3, 2.0 / 3}, DType::kF64)),
            "[0.33333333 0.66666667]");
}

TEST(ArrayTextTest, IntegersAreAlignedToTheRight) {
  EXPECT_EQ(ArrayText(TensorOf({2, 2}, {1, -20, 300, 4}, DType::kI32)),
            "[[  1 -20]\n [300   4]]");
  EXPECT_EQ(ArrayText(Vector({0, 255}, DType::kU8)), "[  0 255]");
}

TEST(ArrayTextTest, BoolsAreWordsOfOneWidth) {
  EXPECT_EQ(ArrayText(Vector({1, 0}, DType::kBool)), "[ True False]");
}

TEST(ArrayTextTest, NonfiniteFillTheWholeColumn) {
  EXPECT_EQ(ArrayText(Vector({kNaN, 1, -2.5, kInfinity})),
            "[ nan  1.  -2.5  inf]");
  EXPECT_EQ(ArrayText(Vector({-kInfinity, 1})), "[-inf   1.]");
  EXPECT_EQ(ArrayText(Vector({kNaN, kInfinity})), "[nan inf]");
}

TEST(ArrayTextTest, WideRangesHaveExponents) {
  EXPECT_EQ(ArrayText(Vector({0.1, 1.2345678e10})),
            "[1.0000000e-01 1.2345678e+10]");
  EXPECT_EQ(ArrayText(Vector({5e-324, 1}, DType::kF64)), "[5.e-324 1.e+000]");
  EXPECT_EQ(ArrayText(Vector({1e300, 1e-300, kNaN}, DType::kF64)),
            "[1.e+300 1.e-300     nan]");
}

TEST(ArrayTextTest, HalvesHaveTheDigitsOfHalves) {
  EXPECT_EQ(ArrayText(Vector({0.1, 0.2}, DType::kF16)), "[0.1 0.2]");
  EXPECT_EQ(ArrayText(Vector({1000.5, 0.001}, DType::kF16)),
            "[1.0005e+03 1.0004e-03]");
  EXPECT_EQ(ArrayText(Vector({-14568, -9360}, DType::kF16)),
            "[-14568.  -9360.]");
}

TEST(ArrayTextTest, SmallFloatsThatNumPyLacksArePrintedAlike) {
  EXPECT_EQ(ArrayText(Vector({0.1, 2}, DType::kBF16)), "[0.1 2. ]");
  EXPECT_EQ(ArrayText(Vector({0.1, 2}, DType::kF8E4M3FN)), "[0.1 2. ]");
  EXPECT_EQ(ArrayText(Vector({0.25, 2}, DType::kF8E5M2)), "[0.25 2.  ]");
}

TEST(ArrayTextTest, LongLinesAreBroken) {
  EXPECT_EQ(
      ArrayText(Range({2, 20}, 1000, DType::kI64)),
      "[[    0  1000  2000  3000  4000  5000  6000  7000  8000  9000 10000 "
      "11000\n"
      "  12000 13000 14000 15000 16000 17000 18000 19000]\n"
      " [20000 21000 22000 23000 24000 25000 26000 27000 28000 29000 30000 "
      "31000\n"
      "  32000 33000 34000 35000 36000 37000 38000 39000]]");
}

TEST(ArrayTextTest, BrokenLinesEndWithoutBlanks) {
  std::vector<double> elements(30, 0.5);
  elements[0] = 0.125;

  EXPECT_THAT(ArrayText(Vector(elements)), HasSubstr("0.5\n 0.5"));
}

TEST(ArrayTextTest, MoreThanAThousandElementsAreSummarised) {
  EXPECT_EQ(ArrayText(Range({1001}, 1, DType::kI32)),
            "[   0    1    2 ...  998  999 1000]");
  EXPECT_EQ(
      ArrayText(Range({2, 1000}, 1, DType::kF32)),
      "[[0.000e+00 1.000e+00 2.000e+00 ... 9.970e+02 9.980e+02 9.990e+02]\n"
      " [1.000e+03 1.001e+03 1.002e+03 ... 1.997e+03 1.998e+03 1.999e+03]]");
}

TEST(ArrayTextTest, SummaryLeavesOutRowsToo) {
  EXPECT_THAT(ArrayText(Range({11, 10, 10}, 1, DType::kI16)),
              StartsWith("[[[   0    1    2 ...    7    8    9]\n"
                         "  [  10   11   12 ...   17   18   19]\n"
                         "  [  20   21   22 ...   27   28   29]\n"
                         "  ...\n"
                         "  [  70   71   72 ...   77   78   79]\n"));
  EXPECT_THAT(ArrayText(Range({11, 10, 10}, 1, DType::kI16)),
              HasSubstr("297  298  299]]\n\n ...\n\n [[ 800"));
}

TEST(ArrayTextTest, AThousandElementsAreAllThere) {
  EXPECT_THAT(ArrayText(Range({1000}, 1, DType::kI32)), HasSubstr(" 500 "));
}

TEST(ArrayTextTest, ScalarsStandAlone) {
  EXPECT_EQ(ArrayText(Full({}, 2)), "2.0");
  EXPECT_EQ(ArrayText(Full({}, -3, DType::kI32)), "-3");
  EXPECT_EQ(ArrayText(Full({}, 1, DType::kBool)), "True");
  EXPECT_EQ(ArrayText(Full({}, 1e-5)), "1e-05");
}

TEST(ArrayTextTest, EmptyTensorsAreEmptyBrackets) {
  EXPECT_EQ(ArrayText(Tensor()), "[]");
  EXPECT_EQ(ArrayText(Full({2, 0, 3}, 1)), "[]");
}

}  // namespace
}  // namespace tensorkv
