#include "kernels/cpu/range_update.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

// Whole updates are compared with an oracle in tests/contracts/backend.

TEST(RangeUpdateTest, TouchesOnlyItsRange) {
  const UpdateRule accumulate = *UpdateRule::Create({"accumulate"});
  std::vector<int32_t> value = {1, 2, 3, 4};
  const std::vector<int32_t> contribution = {10, 20, 30, 40};
  const TensorView view = {DType::kI32, 4, contribution.data()};
  const MutableTensorView target = {DType::kI32, 4, value.data()};

  UpdateRange(*PortableKernels(),
              {.rule = &accumulate,
               .stored = target,
               .contributions = {&view, 1},
               .value = target},
              1, 3);

  EXPECT_THAT(value, ElementsAre(1, 22, 33, 4));
}

TEST(RangeUpdateTest, TakesContributionsAtAnyAddress) {
  const UpdateRule sgd = *UpdateRule::Create({"sgd"});
  const int64_t size = kBlockElements + 5;
  // Bits that are numbers in each of these dtypes.
  const std::vector<uint16_t> bits(4 * size, 0x3C3C);
  std::vector<char> moved(bits.size() * sizeof(uint16_t) + 1);
  std::memcpy(moved.data() + 1, bits.data(), moved.size() - 1);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16}) {
    for (const size_t count : {1, 2, 6}) {
      std::vector<float> expected(size, 1);
      std::vector<float> actual(size, 1);
      const auto update = [&](const void* data, std::vector<float>& value) {
        const std::vector<TensorView> views(count, {dtype, size, data});
        const MutableTensorView target = {DType::kF32, size, value.data()};
        UpdateRange(*PortableKernels(),
                    {.rule = &sgd,
                     .stored = target,
                     .contributions = views,
                     .value = target},
                    0, size);
      };

      update(bits.data(), expected);
      update(moved.data() + 1, actual);

      EXPECT_EQ(actual, expected) << NameOf(dtype) << " " << count;
    }
  }
}

TEST(RangeUpdateTest, GoesOnFromBlockToBlock) {
  const UpdateRule assign;
  const int64_t size = 3 * kBlockElements + 5;
  std::vector<double> contribution(size);
  for (int64_t i = 0; i < size; ++i) contribution[i] = i;
  std::vector<float> value(size);
  const TensorView view = {DType::kF64, size, contribution.data()};

  UpdateRange(*PortableKernels(),
              {.rule = &assign,
               .contributions = {&view, 1},
               .value = {DType::kF32, size, value.data()}},
              0, size);

  EXPECT_THAT(value, ::testing::ElementsAreArray(contribution));
}

}  // namespace
}  // namespace tensorkv
