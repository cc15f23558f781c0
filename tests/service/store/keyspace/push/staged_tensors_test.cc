#include "service/store/keyspace/push/staged_tensors.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

RefPtr<BudgetAccount> Account(uint64_t limit) {
  return MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("test", limit));
}

// A u8 tensor of that many bytes, without memory.
Tensor OfBytes(int64_t size_bytes) {
  return *Tensor::WithoutData(DType::kU8, {size_bytes});
}

TEST(StagingLayoutTest, LargeTensorsHaveBuffersOfTheirOwn) {
  StagingLayout layout;

  layout.Add(kOwnBufferBytes);
  layout.Add(10);
  layout.Add(kOwnBufferBytes + 1);

  EXPECT_THAT(layout.buffer_bytes(),
              ElementsAre(kOwnBufferBytes, 10, kOwnBufferBytes + 1));
}

TEST(StagingLayoutTest, SmallTensorsShareAlignedPlaces) {
  StagingLayout layout;

  layout.Add(10);
  layout.Add(kOwnBufferBytes);
  const StagingLayout::Position second = layout.Add(70);
  const StagingLayout::Position third = layout.Add(1);

  EXPECT_EQ(second.buffer, 0u);
  EXPECT_EQ(second.offset, 64u);
  EXPECT_EQ(third.offset, 192u);
  EXPECT_THAT(layout.buffer_bytes(), ElementsAre(193, kOwnBufferBytes));
  EXPECT_EQ(layout.total_bytes(), 193 + kOwnBufferBytes);
}

TEST(StagingLayoutTest, FullSharedBufferIsFollowedByAnother) {
  constexpr uint64_t kFit = kMaxSharedBufferBytes / kOwnBufferBytes;
  StagingLayout layout;
  for (uint64_t i = 0; i < kFit + 1; ++i) layout.Add(kOwnBufferBytes - 1);

  EXPECT_THAT(layout.buffer_bytes(),
              ElementsAre(kMaxSharedBufferBytes - 1, kOwnBufferBytes - 1));
}

TEST(StagingLayoutTest, HugeSizesDoNotWrapAround) {
  StagingLayout layout;

  for (int i = 0; i < 4; ++i) layout.Add(uint64_t{1} << 62);
  layout.Add(5);

  EXPECT_EQ(layout.total_bytes(), UINT64_MAX);
}

TEST(AllocateStagedTest, GivesMemoryThatTheAccountCountsAsLongAsItLives) {
  const auto account = Account(1 << 20);
  std::vector<Tensor> tensors = {OfBytes(10), OfBytes(kOwnBufferBytes),
                                 OfBytes(20), OfBytes(0)};

  ASSERT_OK(AllocateStaged(
      account, {&tensors[0], &tensors[1], &tensors[2], &tensors[3]}));

  EXPECT_EQ(tensors[2].data(), tensors[0].data() + 64);
  EXPECT_TRUE(tensors[1].fills_buffer());
  EXPECT_TRUE(tensors[3].has_data());
  EXPECT_EQ(account->used_bytes(), 128 + kOwnBufferBytes);
  tensors[0] = tensors[3] = Tensor();
  EXPECT_EQ(account->used_bytes(), 128 + kOwnBufferBytes);
  tensors.clear();
  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST(AllocateStagedTest, WithoutRoomForAllNoneHasMemory) {
  const auto account = Account(2 * kOwnBufferBytes - 1);
  Tensor first = OfBytes(kOwnBufferBytes);
  Tensor second = OfBytes(kOwnBufferBytes);

  EXPECT_THAT(AllocateStaged(account, {&first, &second}),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_FALSE(first.has_data());
  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST(AllocateStagedTest, MemoryThatTheSystemRefusesIsGivenBack) {
  const auto account = Account(UINT64_MAX);
  Tensor first = OfBytes(kOwnBufferBytes);
  Tensor second = OfBytes(INT64_MAX);

  EXPECT_THAT(AllocateStaged(account, {&first, &second}),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_FALSE(first.has_data());
  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST(CanBecomeValueTest, OnlyLargeCountedMemoryThatNobodyShares) {
  const auto account = Account(1 << 20);
  Tensor large = OfBytes(kOwnBufferBytes);
  Tensor small = OfBytes(10);
  ASSERT_OK(AllocateStaged(account, {&large, &small}));
  const Tensor uncounted = *Tensor::Filled(DType::kU8, {kOwnBufferBytes}, 0);

  EXPECT_TRUE(CanBecomeValue(*account, large.buffer().get(), kOwnBufferBytes));
  EXPECT_FALSE(
      CanBecomeValue(*account, large.buffer().get(), kOwnBufferBytes - 1));
  EXPECT_FALSE(CanBecomeValue(*account, small.buffer().get(), 10));
  EXPECT_FALSE(
      CanBecomeValue(*Account(1), large.buffer().get(), kOwnBufferBytes));
  EXPECT_FALSE(
      CanBecomeValue(*account, uncounted.buffer().get(), kOwnBufferBytes));
  EXPECT_FALSE(CanBecomeValue(*account, nullptr, kOwnBufferBytes));
  const Tensor reader = large;
  EXPECT_FALSE(CanBecomeValue(*account, large.buffer().get(), kOwnBufferBytes));
}

}  // namespace
}  // namespace tensorkv
