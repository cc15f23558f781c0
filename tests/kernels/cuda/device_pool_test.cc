#include "kernels/cuda/device_pool.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/pinned_slots.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::StatusIs;

class DevicePoolTest : public ::testing::Test {
 protected:
  PinnedMemory Pinned() { return *PinnedMemory::Create(&pool_->device(), 100); }

  FakeGpu gpu_{{.memory_bytes = 1500}};
  std::shared_ptr<DevicePool> pool_ = *DevicePool::Create(gpu_.Open(), 2048);
};

TEST_F(DevicePoolTest, CountsWhatIsInUse) {
  ASSERT_OK_AND_ASSIGN(DeviceMemory memory, pool_->Allocate(100));
  EXPECT_EQ(memory.size_bytes(), 100);
  EXPECT_EQ(pool_->used_bytes(), 512);

  DeviceMemory moved = std::move(memory);
  EXPECT_EQ(pool_->used_bytes(), 512);
  EXPECT_EQ(moved.size_bytes(), 100);
  EXPECT_EQ(memory.size_bytes(), 0);  // NOLINT(bugprone-use-after-move)

  moved = DeviceMemory();
  EXPECT_EQ(pool_->used_bytes(), 0);
}

TEST_F(DevicePoolTest, BeyondTheQuotaNothingIsAskedOfTheDevice) {
  ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, pool_->Allocate(100));
  gpu_.FailCall(0, absl::InternalError("was asked"));

  EXPECT_THAT(pool_->Allocate(1537),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "fake:0 memory: expected at most 1536 bytes (512 of "
                       "2048 are in use), got 2048"));
  EXPECT_THAT(pool_->Allocate(SIZE_MAX),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(pool_->used_bytes(), 512);
}

TEST_F(DevicePoolTest, ManySmallPiecesTakeWhatTheyAreRoundedTo) {
  std::vector<DeviceMemory> pieces;
  for (int i = 0; i < 4; ++i) pieces.push_back(*pool_->Allocate(1));

  EXPECT_THAT(pool_->Allocate(1),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(DevicePoolTest, WhatIsFreeGoesBackWhenNothingHappensForAWhile) {
  const DeviceMemory kept = *pool_->Allocate(100);
  DeviceMemory freed = *pool_->Allocate(1000);
  freed = {};
  const auto look = [this](int num_times) {
    for (int i = 0; i < num_times; ++i) pool_->TrimIfIdle();
  };

  look(DevicePool::kIdleLooks);
  EXPECT_OK(pool_->Allocate(1).status());  // something happens
  look(DevicePool::kIdleLooks);
  EXPECT_GE(gpu_.reserved_bytes(), 1100);
  look(1);
  EXPECT_EQ(gpu_.reserved_bytes(), 100);
}

TEST_F(DevicePoolTest, MemoryThatIsInPiecesIsPutTogether) {
  gpu_.FailCall(0, absl::ResourceExhaustedError("in pieces"));

  EXPECT_OK(pool_->Allocate(1000));
  EXPECT_TRUE(gpu_.has_injected());
}

TEST_F(DevicePoolTest, DeviceWithoutMemoryIsResourceExhausted) {
  EXPECT_THAT(
      pool_->Allocate(1501),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("fake:0 has")));
  EXPECT_EQ(pool_->used_bytes(), 0);
  EXPECT_OK(pool_->Allocate(1500));
}

TEST_F(DevicePoolTest, MemoryOutlivesThePool) {
  ASSERT_OK_AND_ASSIGN(DeviceMemory memory, pool_->Allocate(100));

  pool_ = nullptr;

  EXPECT_EQ(gpu_.usage().device_bytes, 100);
  memory = DeviceMemory();
  EXPECT_EQ(gpu_.usage(), FakeGpu::Usage());
}

TEST_F(DevicePoolTest, FailedRecordLeavesNothingAllocated) {
  gpu_.FailCall(1, absl::InternalError("no record"));

  EXPECT_THAT(pool_->Allocate(100),
              StatusIs(absl::StatusCode::kInternal, "no record"));

  EXPECT_EQ(pool_->used_bytes(), 0);
  pool_ = nullptr;
  EXPECT_EQ(gpu_.usage(), FakeGpu::Usage());
}

TEST_F(DevicePoolTest, StreamsWaitForAllocationsBeforeThem) {
  ASSERT_OK_AND_ASSIGN(auto stream,
                       pool_->device().CreateStream(StreamUse::kCompute));
  gpu_.Hold(StreamUse::kMemory);
  ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, pool_->Allocate(100));
  const PinnedMemory pinned = Pinned();

  ASSERT_OK(pool_->OrderBehindAllocations(*stream));
  ASSERT_OK(stream->CopyToHost(pinned.data(), memory.data(), 100));

  gpu_.WaitForQueued(StreamUse::kCompute, 2);
  gpu_.Release(StreamUse::kMemory);
  EXPECT_OK(stream->Synchronize());
}

// What the test above would miss if the fake did not see it.
TEST_F(DevicePoolTest, WithoutOrderTheFakeFails) {
  ASSERT_OK_AND_ASSIGN(auto stream,
                       pool_->device().CreateStream(StreamUse::kCompute));
  gpu_.Hold(StreamUse::kMemory);
  ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, pool_->Allocate(100));
  const PinnedMemory pinned = Pinned();

  ASSERT_OK(stream->CopyToHost(pinned.data(), memory.data(), 100));

  EXPECT_THAT(stream->Synchronize(), StatusIs(absl::StatusCode::kUnavailable,
                                              HasSubstr("no device memory")));
  gpu_.Release(StreamUse::kMemory);
}

// Else the device would write to memory that is not there, and fail.
TEST_F(DevicePoolTest, MemoryThatIsUploadedToIsFreedBehindThat) {
  const auto uploads =
      *StreamLane::Create(&pool_->device(), StreamUse::kToDevice);
  pool_->OrderFreesBehind(uploads.get());
  ASSERT_OK_AND_ASSIGN(DeviceMemory memory, pool_->Allocate(100));
  const PinnedMemory pinned = Pinned();
  gpu_.Hold(StreamUse::kToDevice);
  const Answer<absl::Status> uploaded;
  ASSERT_OK(uploads->Run(
      [&](Stream& stream) -> absl::Status {
        RETURN_IF_ERROR(pool_->OrderBehindAllocations(stream));
        return stream.CopyToDevice(memory.data(), pinned.data(), 100);
      },
      [uploaded](absl::Status status) { uploaded.Set(std::move(status)); }));

  memory = DeviceMemory();

  EXPECT_EQ(pool_->used_bytes(), 0);
  EXPECT_EQ(gpu_.usage().device_bytes, 100);
  gpu_.Release(StreamUse::kToDevice);
  EXPECT_OK(uploaded.Wait());
  pool_->OrderFreesBehind(nullptr);
}

}  // namespace
}  // namespace tensorkv
