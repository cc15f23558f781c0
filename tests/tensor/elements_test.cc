#include "tensor/elements.h"

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
class ElementsTest : public ::testing::Test {};
using ElementTypes =
    ::testing::Types<float, double, Half, BFloat16, int8_t, uint8_t, int16_t,
                     uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(ElementsTest, ElementTypes);

TYPED_TEST(ElementsTest, ComeBackAsTheyWere) {
  const std::vector<TypeParam> elements = {TypeParam(1), TypeParam(2),
                                           TypeParam(100)};

  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       TensorOf<TypeParam>({3}, absl::MakeSpan(elements)));

  EXPECT_EQ(sizeof(TypeParam), SizeOf(tensor.dtype()));
  ASSERT_OK_AND_ASSIGN(const absl::Span<TypeParam> writable,
                       MutableElementsOf<TypeParam>(tensor));
  writable[1] = TypeParam(3);
  ASSERT_OK_AND_ASSIGN(const absl::Span<const TypeParam> read,
                       ElementsOf<TypeParam>(tensor));
  EXPECT_THAT(read, ElementsAre(TypeParam(1), TypeParam(3), TypeParam(100)));
}

TYPED_TEST(ElementsTest, OfAnotherDTypeAreRefused) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       Tensor::Filled(DType::kBool, Shape({2}), 1));

  EXPECT_THAT(ElementsOf<TypeParam>(tensor),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("bool[2]")));
  EXPECT_THAT(MutableElementsOf<TypeParam>(tensor),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(SmallFloatsTest, RoundToTheNearestThatTheyHave) {
  EXPECT_EQ(float{Half(1.0f + 0x1p-11f)}, 1.0f);
  EXPECT_EQ(float{Half(1.0f + 0x1p-10f)}, 1.0f + 0x1p-10f);
  EXPECT_EQ(float{Half(1e6f)}, std::numeric_limits<float>::infinity());
  EXPECT_EQ(float{BFloat16(1.0f + 0x1p-8f)}, 1.0f);
  EXPECT_NEAR(float{BFloat16(1e30f)} / 1e30f, 1, 0x1p-8);
}

TEST(UntypedElementsTest, OfNothingAreNone) {
  ASSERT_OK_AND_ASSIGN(const Tensor empty,
                       Tensor::WithoutData(DType::kF32, Shape({0, 3})));

  ASSERT_OK_AND_ASSIGN(const absl::Span<const float> elements,
                       ElementsOf<float>(empty));

  EXPECT_TRUE(elements.empty());
}

TEST(UntypedElementsTest, ThatAreNotThereAreRefused) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                       Tensor::WithoutData(DType::kF32, Shape({3})));

  EXPECT_THAT(ElementsOf<float>(tensor),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("got none")));
}

TEST(UntypedElementsTest, ThatAreNotAlignedAreRefused) {
  ASSERT_OK_AND_ASSIGN(RefPtr<Buffer> buffer, HostBuffer::Allocate(16));
  ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      Tensor::FromBufferAt(DType::kF32, Shape({3}), buffer, 2));

  EXPECT_THAT(ElementsOf<float>(tensor),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("aligned")));
}

TEST(UntypedElementsTest, ThatAreSharedAreNotWritten) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       Tensor::Filled(DType::kF32, Shape({3}), 1));
  const Tensor other = tensor;

  EXPECT_THAT(ElementsOf<float>(other), IsOkAndHolds(ElementsAre(1, 1, 1)));
  EXPECT_THAT(
      MutableElementsOf<float>(tensor),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("is shared")));
}

TEST(BoolElementsTest, AreZeroOrOne) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor,
                       TensorOf<bool>({2}, std::array{true, false}));
  EXPECT_THAT(ElementsOf<bool>(tensor), IsOkAndHolds(ElementsAre(true, false)));

  tensor.mutable_data()[1] = 2;

  EXPECT_THAT(ElementsOf<bool>(tensor), StatusIs(StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const absl::Span<bool> writable,
                       MutableElementsOf<bool>(tensor));
  writable[1] = true;
  EXPECT_THAT(ElementsOf<bool>(tensor), IsOkAndHolds(ElementsAre(true, true)));
}

TEST(UntypedElementsTest, OfAnotherNumberThanTheShapeTakesMakeNoTensor) {
  const std::vector<float> three = {1, 2, 3};

  EXPECT_THAT(TensorOf<float>({2, 2}, absl::MakeSpan(three)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 3")));
}

}  // namespace
}  // namespace tensorkv
