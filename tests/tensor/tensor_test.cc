#include "tensor/tensor.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tensor/float_formats.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace tensor_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The one element of a scalar filled with `value`. REQUIRES: it can be held.
template <typename T>
T Fill(DType dtype, double value) {
  return Tensor::Filled(dtype, Shape(), value)->elements<T>()[0];
}

TEST(TensorTest, DefaultIsEmptyWithoutBuffer) {
  const Tensor tensor;

  EXPECT_EQ(tensor.Description(), "f32[0]");
  EXPECT_EQ(tensor.size_bytes(), 0);
  EXPECT_EQ(tensor.data(), nullptr);
  EXPECT_FALSE(tensor.buffer());
}

TEST(TensorTest, AllocateGivesAlignedMemoryOfTheRightSize) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                       Tensor::Allocate(DType::kF64, {2, 3}));

  EXPECT_EQ(tensor.dtype(), DType::kF64);
  EXPECT_EQ(tensor.shape(), Shape({2, 3}));
  EXPECT_EQ(tensor.num_elements(), 6);
  EXPECT_EQ(tensor.size_bytes(), 48);
  EXPECT_EQ(tensor.buffer()->size_bytes(), 48);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % kBufferAlignment, 0);
}

TEST(TensorTest, AllocateOfOverflowingSizeIsInvalid) {
  const Shape shape = {std::numeric_limits<int64_t>::max()};

  EXPECT_THAT(Tensor::Allocate(DType::kF32, shape), StatusIs(kInvalidArgument));
  EXPECT_THAT(Tensor::Filled(DType::kF32, shape, 0),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Tensor::CopyOf(DType::kF32, shape, nullptr),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Tensor::FromBuffer(DType::kF32, shape, nullptr),
              StatusIs(kInvalidArgument));
}

TEST(TensorTest, ViewsSpanTheElements) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::Filled(DType::kI16, {3}, 1));

  tensor.mutable_elements<int16_t>()[1] = 7;
  const MutableTensorView writable = tensor.mutable_view();
  const TensorView view = writable;

  EXPECT_THAT(tensor.elements<int16_t>(), ElementsAre(1, 7, 1));
  EXPECT_EQ(view.data, tensor.data());
  EXPECT_EQ(view.dtype, DType::kI16);
  EXPECT_EQ(view.num_elements, 3);
  EXPECT_EQ(view.size_bytes(), 6);
  EXPECT_EQ(tensor.view().data, writable.data);
}

TEST(TensorTest, FromBufferOfAnotherSizeIsInvalid) {
  ASSERT_OK_AND_ASSIGN(RefPtr<Buffer> buffer, HostBuffer::Allocate(20));

  EXPECT_THAT(Tensor::FromBuffer(DType::kF32, {2, 3}, buffer),
              StatusIs(kInvalidArgument,
                       HasSubstr("expected 24 bytes for f32[2,3], got 20")));
  EXPECT_THAT(Tensor::FromBuffer(DType::kF32, {2, 3}, nullptr),
              StatusIs(kInvalidArgument, HasSubstr("got 0")));
}

TEST(TensorTest, FromBufferTakesNoBufferForNoElements) {
  EXPECT_OK(Tensor::FromBuffer(DType::kF32, {0, 3}, nullptr));
}

TEST(TensorTest, CopyOfIsIndependentOfItsSource) {
  std::vector<float> source = {1, 2, 3};
  ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                       Tensor::CopyOf(DType::kF32, {3}, source.data()));

  source[0] = 9;

  EXPECT_THAT(tensor.elements<float>(), ElementsAre(1, 2, 3));
}

TEST(TensorTest, CopyOfNoElementsReadsNothing) {
  EXPECT_OK(Tensor::CopyOf(DType::kF32, {0}, nullptr));
}

// Just above a midpoint of the format, by less than an f32 can tell: rounding
// to f32 first would give the midpoint, and that the even neighbour below.
TEST(FilledTensorTest, SmallFloatsAreRoundedOnce) {
  constexpr double kLittle = 0x1p-40;

  EXPECT_EQ(Fill<uint16_t>(DType::kF16, 1 + 0x1p-11 + kLittle), 0x3c01);
  EXPECT_EQ(Fill<uint16_t>(DType::kF16, 1 + 0x3p-11 - kLittle), 0x3c01);
  EXPECT_EQ(Fill<uint16_t>(DType::kBF16, -1 - 0x1p-8 - kLittle), 0xbf81);
  EXPECT_EQ(Fill<uint8_t>(DType::kF8E4M3FN, 1 + 0x1p-4 + kLittle), 0x39);
  EXPECT_EQ(Fill<uint8_t>(DType::kF8E5M2, 1 + 0x1p-3 + kLittle), 0x3d);
}

TEST(FilledTensorTest, FloatsTakeInfinityAndNan) {
  EXPECT_EQ(Fill<float>(DType::kF32, kInfinity), INFINITY);
  EXPECT_EQ(Fill<float>(DType::kF32, 1e300), INFINITY);
  EXPECT_EQ(Fill<uint16_t>(DType::kF16, -1e300), 0xfc00);
  EXPECT_EQ(Fill<uint16_t>(DType::kBF16, kInfinity), 0x7f80);
  EXPECT_TRUE(std::isnan(Fill<double>(DType::kF64, kNan)));
  EXPECT_TRUE(std::isnan(F16ToF32(Fill<uint16_t>(DType::kF16, kNan))));
  EXPECT_EQ(Fill<uint8_t>(DType::kF8E4M3FN, 1e300), 0x7f);
}

TEST(FilledTensorTest, IntegersAreTruncated) {
  EXPECT_EQ(Fill<int8_t>(DType::kI8, -2.9), -2);
  EXPECT_EQ(Fill<uint8_t>(DType::kU8, 255.9), 255);
  EXPECT_EQ(Fill<uint8_t>(DType::kU8, -0.9), 0);
  EXPECT_EQ(Fill<int16_t>(DType::kI16, 7), 7);
  EXPECT_EQ(Fill<int32_t>(DType::kI32, -2147483648.5), -2147483648);
  EXPECT_EQ(Fill<int64_t>(DType::kI64, 0x1p62), int64_t{1} << 62);
  EXPECT_EQ(Fill<int64_t>(DType::kI64, -0x1p63),
            std::numeric_limits<int64_t>::min());
}

struct Unrepresentable {
  DType dtype;
  double value;
};

class UnrepresentableTest : public ::testing::TestWithParam<Unrepresentable> {};

TEST_P(UnrepresentableTest, IsInvalid) {
  EXPECT_THAT(Tensor::Filled(GetParam().dtype, {2}, GetParam().value),
              StatusIs(kInvalidArgument,
                       HasSubstr(std::string(NameOf(GetParam().dtype)))));
}

INSTANTIATE_TEST_SUITE_P(
    All, UnrepresentableTest,
    ::testing::Values(
        Unrepresentable{DType::kI8, 128}, Unrepresentable{DType::kI8, -129},
        Unrepresentable{DType::kU8, 256}, Unrepresentable{DType::kU8, -1},
        Unrepresentable{DType::kI16, 32768},
        Unrepresentable{DType::kI32, 2147483648.0},
        Unrepresentable{DType::kI64, 0x1p63},
        Unrepresentable{DType::kI64, -0x1.8p63},
        Unrepresentable{DType::kI64, kInfinity},
        Unrepresentable{DType::kI32, -kInfinity},
        Unrepresentable{DType::kU8, kNan}, Unrepresentable{DType::kI64, kNan}));

TEST(FilledTensorTest, MessageNamesTheRange) {
  EXPECT_THAT(Tensor::Filled(DType::kI8, {2}, 300),
              StatusIs(kInvalidArgument,
                       HasSubstr("i8 holds, from -128 to 127, got 300")));
}

TEST(FilledTensorTest, BoolsAreWhetherTheValueIsNotZero) {
  EXPECT_EQ(Fill<uint8_t>(DType::kBool, 0), 0);
  EXPECT_EQ(Fill<uint8_t>(DType::kBool, -0.0), 0);
  EXPECT_EQ(Fill<uint8_t>(DType::kBool, 1), 1);
  EXPECT_EQ(Fill<uint8_t>(DType::kBool, 0.5), 1);
}

}  // namespace tensor_test
}  // namespace tensorkv
