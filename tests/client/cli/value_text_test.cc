#include "client/cli/value_text.h"

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/odd_names.h"
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

TEST(ValueJsonTest, IsAValueWhoseElementsAreAtItsEnd) {
  EXPECT_EQ(ValueJson("3", {1, Full({2, 3}, 2), 4}),
            "{\"key\":\"3\",\"version\":\"1\",\"num_contributions\":4,"
            "\"tensor\":{\"dtype\":\"DTYPE_F32\",\"shape\":[\"2\",\"3\"]},"
            "\"values\":[2.0,2.0,2.0,2.0,2.0,2.0]}");
}

TEST(ValueJsonTest, ElementsAreThemselvesAndStringsIfTheyAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto values_of = [](const std::vector<double>& elements, DType dtype) {
    return nlohmann::json::parse(
        ValueJson("k", {1, Vector(elements, dtype)}))["values"];
  };

  EXPECT_EQ(values_of({0.1, 1e-9}, DType::kF32), nlohmann::json({0.1, 1e-9}));
  EXPECT_EQ(values_of({infinity, -infinity, infinity - infinity}, DType::kF32),
            nlohmann::json({"Infinity", "-Infinity", "NaN"}));
  EXPECT_EQ(values_of({-1, 7}, DType::kI8), nlohmann::json({-1, 7}));
  EXPECT_EQ(values_of({1, 0}, DType::kBool), nlohmann::json({true, false}));
  EXPECT_EQ(values_of({}, DType::kF32), nlohmann::json::array());
}

TEST(ValueJsonTest, EveryNameComesBack) {
  for (const std::string& name : testing::OddNames(1024)) {
    EXPECT_EQ(nlohmann::json::parse(ValueJson(name, {1, Tensor()}))["key"],
              name);
  }
}

}  // namespace
}  // namespace tensorkv
