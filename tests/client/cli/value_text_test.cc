#include "client/cli/value_text.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::TensorOf;
using ::tensorkv::testing::Vector;

// 0, 1, 2, ...
Tensor Range(const Shape& shape) {
  std::vector<double> elements(shape.num_elements());
  std::iota(elements.begin(), elements.end(), 0);
  return TensorOf(shape, elements, DType::kI32);
}

TEST(ValueTextTest, RowsAreLines) {
  EXPECT_EQ(ValueText(Full({2, 3}, 2)), "2.0 2.0 2.0\n2.0 2.0 2.0\n");
  EXPECT_EQ(ValueText(Range({2, 1, 2})), "0 1\n2 3\n");
  EXPECT_EQ(ValueText(Vector({1, -20}, DType::kI32)), "1 -20\n");
  EXPECT_EQ(ValueText(Full({}, 7)), "7.0\n");
  EXPECT_EQ(ValueText(Full({3, 0}, 7)), "");
}

TEST(ValueTextTest, EightElementsOfARowAreShownAndOfMoreTheEnds) {
  EXPECT_EQ(ValueText(Range({8})), "0 1 2 3 4 5 6 7\n");
  EXPECT_EQ(ValueText(Range({9})), "0 1 2 ... 6 7 8\n");
}

TEST(ValueTextTest, EightRowsAreShownAndOfMoreTheEnds) {
  EXPECT_EQ(ValueText(Range({8, 1})), "0\n1\n2\n3\n4\n5\n6\n7\n");
  EXPECT_EQ(ValueText(Range({100, 1})), "0\n1\n2\n...\n97\n98\n99\n");
}

}  // namespace
}  // namespace tensorkv
