#include "client/internal/transfer/tensor_memory.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

std::vector<Value> ValuesOf(const std::vector<int64_t>& sizes) {
  std::vector<Value> values;
  for (const int64_t size : sizes) {
    values.push_back({1, *Tensor::WithoutData(DType::kU8, Shape({size}))});
  }
  return values;
}

bool IsAligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % kBufferAlignment == 0;
}

class TensorMemoryTest : public ::testing::Test {
 protected:
  const RefPtr<BufferPool> pool_ = MakeRefCounted<BufferPool>(1 << 20);
};

TEST_F(TensorMemoryTest, EveryTensorHasAlignedMemoryOfItsOwn) {
  std::vector<Value> values = ValuesOf({1, 63, 64, 65, 4096, 4097, 100'000});

  ASSERT_OK(AllocateTensors(absl::MakeSpan(values), *pool_));

  // Overlaps would show with the address sanitizer or below.
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor& tensor = values[i].tensor;
    ASSERT_TRUE(IsAligned(tensor));
    std::memset(tensor.mutable_data(), static_cast<int>(i),
                tensor.size_bytes());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto elements = values[i].tensor.elements<uint8_t>();
    EXPECT_EQ(elements.front(), i);
    EXPECT_EQ(elements.back(), i);
  }
}

TEST_F(TensorMemoryTest, SmallTensorsShareBuffers) {
  std::vector<Value> values = ValuesOf(std::vector<int64_t>(1000, 256));

  ASSERT_OK(AllocateTensors(absl::MakeSpan(values), *pool_));

  EXPECT_EQ(values[0].tensor.buffer(), values[1].tensor.buffer());
  EXPECT_FALSE(values[0].tensor.buffer() == values[999].tensor.buffer());
  EXPECT_LE(values[0].tensor.buffer()->size_bytes(), kSharedBufferBytes);
}

TEST_F(TensorMemoryTest, LargeTensorsKeepNothingElseAlive) {
  std::vector<Value> values = ValuesOf({kMaxSharingTensorBytes + 1, 1});

  ASSERT_OK(AllocateTensors(absl::MakeSpan(values), *pool_));

  EXPECT_TRUE(values[0].tensor.fills_buffer());
  EXPECT_LE(values[1].tensor.buffer()->size_bytes(), kBufferAlignment);
}

TEST_F(TensorMemoryTest, MemoryOfLargeTensorsIsUsedAgain) {
  std::vector<Value> values = ValuesOf({200'000});
  ASSERT_OK(AllocateTensors(absl::MakeSpan(values), *pool_));
  const char* const memory = values[0].tensor.data();
  values = ValuesOf({200'001});

  ASSERT_OK(AllocateTensors(absl::MakeSpan(values), *pool_));

  EXPECT_EQ(values[0].tensor.data(), memory);
}

TEST_F(TensorMemoryTest, TensorsWithoutElementsNeedNone) {
  std::vector<Value> values = ValuesOf({0, 0});

  ASSERT_OK(AllocateTensors(absl::MakeSpan(values), *pool_));

  EXPECT_FALSE(values[0].tensor.has_data());
}

TEST_F(TensorMemoryTest, MemoryThatNobodyHasIsResourceExhausted) {
  std::vector<Value> values =
      ValuesOf({std::numeric_limits<int64_t>::max() / 2});

  EXPECT_THAT(AllocateTensors(absl::MakeSpan(values), *pool_),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tensorkv
