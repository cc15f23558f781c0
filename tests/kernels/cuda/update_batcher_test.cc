#include "kernels/cuda/update_batcher.h"

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::Background;
using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::StatusIs;

class UpdateBatcherTest : public ::testing::Test {
 protected:
  // One zero of f32 in device memory and the update that adds it to itself.
  struct Update {
    explicit Update(DevicePool& pool, const UpdateRule& rule)
        : memory(*pool.Allocate(sizeof(float))),
          contribution{DType::kF32, 1, memory.data()},
          update{.rule = &rule,
                 .stored = contribution,
                 .contributions = {&contribution, 1},
                 .value = {DType::kF32, 1, memory.data()}} {}

    DeviceMemory memory;
    TensorView contribution;
    TensorUpdate update;
  };

  absl::Status Apply(const UpdateRule& rule) {
    const Update update(*pool_, rule);
    RETURN_IF_ERROR(batcher_->Zero({update.update.value}));
    return batcher_->Apply({&update.update, 1});
  }

  void WaitForWaiting(size_t num_jobs) {
    while (batcher_->num_waiting() < num_jobs) std::this_thread::yield();
  }

  // The table, and one kernel for each rule.
  static constexpr size_t kWorkOfOne = 3;

  const UpdateRule accumulate_ = *UpdateRule::Create({"accumulate"});
  const UpdateRule assign_;
  FakeGpu gpu_;
  std::shared_ptr<DevicePool> pool_ = *DevicePool::Create(gpu_.Open(), 1 << 20);
  std::unique_ptr<UpdateBatcher> batcher_;
  std::unique_ptr<Executor> submission_;

  void SetUp() override {
    submission_ = std::make_unique<Executor>();
    ASSERT_OK_AND_ASSIGN(batcher_,
                         UpdateBatcher::Create(pool_.get(), submission_.get()));
  }
  void TearDown() override {
    submission_ = nullptr;
    batcher_ = nullptr;
  }
};

TEST_F(UpdateBatcherTest, WhatComesWhileTheDeviceIsBusyIsOneLaunch) {
  const Update first(*pool_, accumulate_);
  std::vector<std::unique_ptr<Update>> later;
  for (int i = 0; i < 5; ++i) {
    later.push_back(std::make_unique<Update>(*pool_, accumulate_));
  }
  gpu_.Hold(StreamUse::kCompute);
  Background busy([&] { return batcher_->Apply({&first.update, 1}); });
  gpu_.WaitForQueued(StreamUse::kCompute, kWorkOfOne);

  std::vector<std::unique_ptr<Background<std::function<absl::Status()>>>> calls;
  for (const auto& update : later) {
    calls.push_back(std::make_unique<Background<std::function<absl::Status()>>>(
        [&, u = update.get()] {
          return batcher_->Apply({&u->update, 1});
        }));
  }
  WaitForWaiting(later.size());
  gpu_.Release(StreamUse::kCompute);

  EXPECT_OK(busy.Result());
  for (const auto& call : calls) EXPECT_OK(call->Result());
  EXPECT_EQ(gpu_.num_launches(), 2);
  const BatchUsage usage = batcher_->usage();
  EXPECT_EQ(usage.num_batches, 2u);
  EXPECT_EQ(usage.num_calls, 6u);
  EXPECT_GT(usage.queued, absl::ZeroDuration());
  EXPECT_GT(usage.running, absl::ZeroDuration());
}

TEST_F(UpdateBatcherTest, IdleDeviceStartsAtOnce) {
  EXPECT_OK(Apply(accumulate_));
  EXPECT_OK(Apply(assign_));

  // Each cleared, then updated.
  EXPECT_EQ(gpu_.num_launches(), 4);
  EXPECT_EQ(batcher_->num_waiting(), 0);
}

// By the caller: the device goes on with what it has.
TEST_F(UpdateBatcherTest, LargerTableGetsItsMemoryWhileTheDeviceIsBusy) {
  const Update update(*pool_, accumulate_);
  const Update other(*pool_, accumulate_);
  std::vector<TensorUpdate> batch(2000, other.update);
  batch[0].rule = &assign_;
  const uint64_t before = gpu_.usage().pinned_bytes;
  gpu_.Hold(StreamUse::kCompute);
  Background busy([&] { return batcher_->Apply({&update.update, 1}); });
  gpu_.WaitForQueued(StreamUse::kCompute, kWorkOfOne);

  Background large([&] { return batcher_->Apply(batch); });
  WaitForWaiting(1);

  EXPECT_GT(gpu_.usage().pinned_bytes, before);
  gpu_.Release(StreamUse::kCompute);
  EXPECT_OK(busy.Result());
  EXPECT_OK(large.Result());
}

TEST_F(UpdateBatcherTest, BatchesThatDoNotFitTheTableTogetherFollowEachOther) {
  const Update update(*pool_, accumulate_);
  const Update one(*pool_, accumulate_);
  const Update other(*pool_, accumulate_);
  const std::vector<TensorUpdate> first(200, one.update);
  const std::vector<TensorUpdate> second(200, other.update);
  gpu_.Hold(StreamUse::kCompute);
  Background busy([&] { return batcher_->Apply({&update.update, 1}); });
  gpu_.WaitForQueued(StreamUse::kCompute, kWorkOfOne);
  Background call([&] { return batcher_->Apply(first); });
  Background another([&] { return batcher_->Apply(second); });
  WaitForWaiting(2);

  gpu_.Release(StreamUse::kCompute);

  EXPECT_OK(busy.Result());
  EXPECT_OK(call.Result());
  EXPECT_OK(another.Result());
  EXPECT_EQ(gpu_.num_launches(), 3);
}

TEST_F(UpdateBatcherTest, ZeroOfManyTensorsIsOneLaunch) {
  std::vector<std::unique_ptr<Update>> updates;
  std::vector<MutableTensorView> tensors(1);  // without elements
  for (int i = 0; i < 100; ++i) {
    updates.push_back(std::make_unique<Update>(*pool_, accumulate_));
    tensors.push_back(updates.back()->update.value);
  }

  EXPECT_OK(batcher_->Zero(tensors));

  EXPECT_EQ(gpu_.num_launches(), 1);
}

TEST_F(UpdateBatcherTest, WithoutMemoryForTheTableNothingHasChanged) {
  const Update update(*pool_, accumulate_);
  const std::vector<TensorUpdate> batch(2000, update.update);
  {
    const uint64_t left = pool_->quota_bytes() - pool_->used_bytes();
    ASSERT_OK_AND_ASSIGN(const DeviceMemory rest, pool_->Allocate(left));
    EXPECT_THAT(batcher_->Apply(batch),
                StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_OK(batcher_->Apply({&update.update, 1}));
  }

  EXPECT_EQ(gpu_.num_launches(), 1);
  EXPECT_OK(batcher_->Apply(batch));
}

TEST_F(UpdateBatcherTest, TableIsNoLargerThanNeededWhereThatIsAllThereIs) {
  const Update update(*pool_, accumulate_);
  std::vector<TensorUpdate> batch(2000, update.update);
  const size_t needed = UpdateTable::MaxRoomOf(batch).table_bytes;
  const uint64_t left = pool_->quota_bytes() - pool_->used_bytes();
  ASSERT_OK_AND_ASSIGN(const DeviceMemory rest,
                       pool_->Allocate(left - needed - kAllocationGranularity));

  EXPECT_OK(batcher_->Apply(batch));
}

// Memory for sums is as large as the largest batch asks for, and not on the
// host.
TEST_F(UpdateBatcherTest, ScratchMemoryIsOnTheDeviceAlone) {
  const UpdateRule adafactor = *UpdateRule::Create({"adafactor"});
  const auto prepare = [&](int64_t num_columns) {
    const TensorUpdate update = {
        .rule = &adafactor,
        .num_rows = 128,
        .value = {DType::kF32, 128 * num_columns, nullptr}};
    return batcher_->Prepare({&update, 1});
  };
  const uint64_t used = pool_->used_bytes();
  const uint64_t pinned = gpu_.usage().pinned_bytes;
  for (const int64_t num_columns : {1024, 4096}) {
    ASSERT_OK(prepare(num_columns));

    const uint64_t sums = 2 * num_columns * sizeof(double);
    EXPECT_GE(pool_->used_bytes(), used + sums);
    EXPECT_LE(pool_->used_bytes(), used + sums + 2 * kAllocationGranularity);
    EXPECT_EQ(gpu_.usage().pinned_bytes, pinned);
  }
}

// Calls up to the launches: the order, the copy, the launch itself.
TEST_F(UpdateBatcherTest, FailureBeforeTheFirstLaunchLeavesTheDeviceUsable) {
  for (int call = 0; call < 3; ++call) {
    SetUp();
    const Update update(*pool_, accumulate_);
    gpu_.FailCall(call, absl::InternalError("injected"));

    EXPECT_THAT(batcher_->Apply({&update.update, 1}),
                StatusIs(absl::StatusCode::kInternal, "injected"));

    EXPECT_OK(batcher_->Apply({&update.update, 1}));
    TearDown();
  }
}

TEST_F(UpdateBatcherTest, FailureAfterTheFirstLaunchFailsTheDevice) {
  const Update one(*pool_, accumulate_);
  const Update other(*pool_, assign_);
  Update third(*pool_, accumulate_);
  const TensorView both[] = {third.contribution, third.contribution};
  third.update.rule = &assign_;
  third.update.contributions = both;
  gpu_.FailCall(3, absl::InternalError("second launch"));

  EXPECT_THAT(batcher_->Apply({one.update, third.update}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("fake:0 has failed: second launch")));
  EXPECT_THAT(
      batcher_->Apply({&other.update, 1}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("second launch")));
}

}  // namespace
}  // namespace tensorkv
