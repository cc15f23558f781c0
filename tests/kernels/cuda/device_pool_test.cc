#include "kernels/cuda/device_pool.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::StatusIs;

class DevicePoolTest : public ::testing::Test {
 protected:
  FakeGpu gpu_{{.memory_bytes = 800}};
  std::shared_ptr<DevicePool> pool_ = *DevicePool::Create(gpu_.Open(), 1000);
};

TEST_F(DevicePoolTest, CountsWhatIsInUse) {
  ASSERT_OK_AND_ASSIGN(DeviceMemory memory, pool_->Allocate(100));
  EXPECT_EQ(memory.size_bytes(), 100);
  EXPECT_EQ(pool_->used_bytes(), 100);

  DeviceMemory moved = std::move(memory);
  EXPECT_EQ(pool_->used_bytes(), 100);

  moved = DeviceMemory();
  EXPECT_EQ(pool_->used_bytes(), 0);
}

TEST_F(DevicePoolTest, BeyondTheQuotaNothingIsAskedOfTheDevice) {
  ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, pool_->Allocate(100));
  gpu_.FailCall(0, absl::InternalError("was asked"));

  EXPECT_THAT(pool_->Allocate(901),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "fake:0 memory: expected at most 900 bytes (100 of 1000 "
                       "are in use), got 901"));
  EXPECT_EQ(pool_->used_bytes(), 100);
}

TEST_F(DevicePoolTest, DeviceWithoutMemoryIsResourceExhausted) {
  EXPECT_THAT(
      pool_->Allocate(900),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("fake:0")));
  EXPECT_EQ(pool_->used_bytes(), 0);
  EXPECT_OK(pool_->Allocate(800));
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

  ASSERT_OK(pool_->OrderBehindAllocations(*stream));
  ASSERT_OK(stream->SetZero(memory.data(), 100));

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

  ASSERT_OK(stream->SetZero(memory.data(), 100));

  EXPECT_THAT(stream->Synchronize(), StatusIs(absl::StatusCode::kUnavailable,
                                              HasSubstr("no device memory")));
  gpu_.Release(StreamUse::kMemory);
}

}  // namespace
}  // namespace tensorkv
