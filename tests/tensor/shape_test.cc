#include "tensor/shape.h"

#include <limits>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace shape_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOkAndHolds;
using testing::StatusIs;

constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

TEST(ShapeTest, DefaultIsAScalar) {
  const Shape shape;

  EXPECT_EQ(shape.rank(), 0);
  EXPECT_THAT(shape.dimensions(), IsEmpty());
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_EQ(shape.ToString(), "[]");
}

TEST(ShapeTest, LiteralEqualsCreated) {
  EXPECT_THAT(Shape::Create({2, 3}), IsOkAndHolds(Shape({2, 3})));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({6}), Shape({2, 3}));
  EXPECT_NE(Shape({1}), Shape());
}

TEST(ShapeTest, RankMayBeEightButNotNine) {
  EXPECT_OK(Shape::Create(std::vector<int64_t>(8, 1)));
  EXPECT_THAT(Shape::Create(std::vector<int64_t>(9, 1)),
              StatusIs(kInvalidArgument,
                       HasSubstr("expected a rank of at most 8, got 9")));
}

TEST(ShapeTest, LongDimensionListsGiveShortMessages) {
  const auto shape = Shape::Create(std::vector<int64_t>(1'000'000, 1));

  EXPECT_LT(shape.status().message().size(), 200);
}

TEST(ShapeTest, NegativeDimensionsAreInvalid) {
  EXPECT_THAT(Shape::Create({2, -1}),
              StatusIs(kInvalidArgument, HasSubstr("got [2,-1]")));
  EXPECT_THAT(Shape::Create({0, -1}), StatusIs(kInvalidArgument));
  EXPECT_THAT(Shape::Create({std::numeric_limits<int64_t>::min()}),
              StatusIs(kInvalidArgument));
}

TEST(ShapeTest, LargestProductIsAccepted) {
  EXPECT_OK(Shape::Create({kLargest}));
  // 2^63 - 1 = 7 * 1317624576693539401.
  EXPECT_OK(Shape::Create({7, 1317624576693539401}));
}

TEST(ShapeTest, OverflowingProductIsInvalid) {
  EXPECT_THAT(Shape::Create({int64_t{1} << 32, int64_t{1} << 31}),
              StatusIs(kInvalidArgument,
                       HasSubstr("expected fewer than 2^63 elements")));
  EXPECT_THAT(Shape::Create({kLargest, 2}), StatusIs(kInvalidArgument));
  // Wraps to zero.
  EXPECT_THAT(Shape::Create({int64_t{1} << 32, int64_t{1} << 32}),
              StatusIs(kInvalidArgument));
}

TEST(ShapeTest, ZeroDoesNotHideAnOverflow) {
  constexpr int64_t kLarge = int64_t{1} << 62;

  EXPECT_THAT(Shape::Create({0, kLarge, kLarge}), StatusIs(kInvalidArgument));
  EXPECT_THAT(Shape::Create({kLarge, kLarge, 0}), StatusIs(kInvalidArgument));
  EXPECT_OK(Shape::Create({0, kLarge}));
}

TEST(SizeInBytesTest, IsElementsTimesElementSize) {
  EXPECT_THAT(SizeInBytes(DType::kF32, Shape({2, 3})), IsOkAndHolds(24));
  EXPECT_THAT(SizeInBytes(DType::kF64, Shape()), IsOkAndHolds(8));
  EXPECT_THAT(SizeInBytes(DType::kBool, Shape({0})), IsOkAndHolds(0));
}

TEST(SizeInBytesTest, OverflowIsInvalid) {
  EXPECT_THAT(SizeInBytes(DType::kU8, Shape({kLargest})),
              IsOkAndHolds(kLargest));
  EXPECT_THAT(
      SizeInBytes(DType::kF16, Shape({kLargest})),
      StatusIs(kInvalidArgument, HasSubstr("expected fewer than 2^63 bytes")));
  EXPECT_THAT(SizeInBytes(DType::kI64, Shape({int64_t{1} << 60})),
              StatusIs(kInvalidArgument));
}

}  // namespace shape_test
}  // namespace tensorkv
