#include "kernels/cuda/update_batcher.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

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

  // Returns at once; the batch stays until the answer has come.
  Answer<absl::Status> Start(absl::Span<const TensorUpdate> batch) {
    const Answer<absl::Status> done;
    batcher_->Start(
        batch, [done](absl::Status status) { done.Set(std::move(status)); });
    return done;
  }
  absl::Status Apply(absl::Span<const TensorUpdate> batch) {
    return Start(batch).Wait();
  }
  absl::Status Apply(const UpdateRule& rule) {
    const Update update(*pool_, rule);
    RETURN_IF_ERROR(Apply(UpdateBatcher::ZerosOf({update.update.value})));
    return Apply({&update.update, 1});
  }

  // Gives the device as much to do as it takes, which stands still until the
  // stream is released. The updates stay.
  std::vector<Answer<absl::Status>> Occupy(const Update& one) {
    gpu_.Hold(StreamUse::kCompute);
    std::vector<Answer<absl::Status>> started;
    for (int i = 0; i < UpdateBatcher::kMaxBatches; ++i) {
      started.push_back(Start({&one.update, 1}));
    }
    return started;
  }

  const UpdateRule accumulate_ = *UpdateRule::Create({"accumulate"});
  const UpdateRule assign_;
  FakeGpu gpu_;
  std::shared_ptr<DevicePool> pool_ = *DevicePool::Create(gpu_.Open(), 1 << 20);
  std::unique_ptr<StreamLane> uploads_ =
      *StreamLane::Create(&pool_->device(), StreamUse::kToDevice);
  std::unique_ptr<UpdateBatcher> batcher_;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(batcher_,
                         UpdateBatcher::Create(pool_.get(), uploads_.get()));
  }
  void TearDown() override { batcher_ = nullptr; }
};

TEST_F(UpdateBatcherTest, WhatComesWhileTheDeviceHasEnoughIsOneLaunch) {
  const Update first(*pool_, accumulate_);
  std::vector<std::unique_ptr<Update>> later;
  const auto busy = Occupy(first);

  std::vector<Answer<absl::Status>> calls;
  for (int i = 0; i < 5; ++i) {
    later.push_back(std::make_unique<Update>(*pool_, accumulate_));
    calls.push_back(Start({&later.back()->update, 1}));
  }
  gpu_.Release(StreamUse::kCompute);

  for (const auto& call : busy) EXPECT_OK(call.Wait());
  for (const auto& call : calls) EXPECT_OK(call.Wait());
  EXPECT_EQ(gpu_.num_launches(), 3);
  EXPECT_EQ(gpu_.num_copies(), 0);  // small tables travel with their launches
  const BatchUsage usage = batcher_->usage();
  EXPECT_EQ(usage.num_batches, 3u);
  EXPECT_EQ(usage.num_calls, 7u);
  EXPECT_GT(usage.queued, absl::ZeroDuration());
  EXPECT_GT(usage.running, absl::ZeroDuration());
}

// An update that is started behind an upload finds its bytes, and ends when
// whoever uploaded has heard of the end.
TEST_F(UpdateBatcherTest, UpdatesComeBehindUploads) {
  const Update update(*pool_, accumulate_);
  const PinnedMemory two = *PinnedMemory::Create(&pool_->device(), 4);
  const float value = 2;
  std::memcpy(two.data(), &value, sizeof(value));
  Answer<absl::Status> uploaded;
  gpu_.Hold(StreamUse::kToDevice);
  ASSERT_OK(uploads_->Run(
      [&](Stream& stream) {
        RETURN_IF_ERROR(pool_->OrderBehindAllocations(stream));
        return stream.CopyToDevice(update.memory.data(), two.data(), 4);
      },
      [uploaded](absl::Status status) { uploaded.Set(std::move(status)); }));
  const Answer<absl::Status> updated;
  batcher_->Start({&update.update, 1}, [updated, uploaded](absl::Status) {
    updated.Set(uploaded.HasArrived() ? absl::OkStatus()
                                      : absl::InternalError("too early"));
  });

  gpu_.Release(StreamUse::kToDevice);

  EXPECT_OK(updated.Wait());
  const Answer<absl::Status> read;
  ASSERT_OK(uploads_->Run(
      [&](Stream& stream) {
        return stream.CopyToHost(two.data(), update.memory.data(), 4);
      },
      [read](absl::Status status) { read.Set(std::move(status)); }));
  EXPECT_OK(read.Wait());
  float sum;
  std::memcpy(&sum, two.data(), sizeof(sum));
  EXPECT_EQ(sum, 4);
}

TEST_F(UpdateBatcherTest, IdleDeviceStartsAtOnce) {
  EXPECT_OK(Apply(accumulate_));
  EXPECT_OK(Apply(assign_));

  // Each cleared, then updated.
  EXPECT_EQ(gpu_.num_launches(), 4);
}

// By the caller: the device goes on with what it has.
TEST_F(UpdateBatcherTest, LargerTableGetsItsMemoryWhileTheDeviceIsBusy) {
  const Update update(*pool_, accumulate_);
  const Update other(*pool_, accumulate_);
  std::vector<TensorUpdate> batch(2000, other.update);
  batch[0].rule = &assign_;
  const uint64_t before = gpu_.usage().pinned_bytes;
  const auto busy = Occupy(update);

  const Answer<absl::Status> large = Start(batch);

  EXPECT_GT(gpu_.usage().pinned_bytes, before);
  gpu_.Release(StreamUse::kCompute);
  for (const auto& call : busy) EXPECT_OK(call.Wait());
  EXPECT_OK(large.Wait());
}

TEST_F(UpdateBatcherTest, BatchesThatDoNotFitTheTableTogetherFollowEachOther) {
  const Update update(*pool_, accumulate_);
  const Update one(*pool_, accumulate_);
  const Update other(*pool_, accumulate_);
  const std::vector<TensorUpdate> first(200, one.update);
  const std::vector<TensorUpdate> second(200, other.update);
  const auto busy = Occupy(update);
  const Answer<absl::Status> call = Start(first);
  const Answer<absl::Status> another = Start(second);

  gpu_.Release(StreamUse::kCompute);

  for (const auto& each : busy) EXPECT_OK(each.Wait());
  EXPECT_OK(call.Wait());
  EXPECT_OK(another.Wait());
  EXPECT_EQ(gpu_.num_launches(), 4);
}

TEST_F(UpdateBatcherTest, ZeroOfManyTensorsIsOneLaunch) {
  std::vector<std::unique_ptr<Update>> updates;
  std::vector<MutableTensorView> tensors(1);  // without elements
  for (int i = 0; i < 100; ++i) {
    updates.push_back(std::make_unique<Update>(*pool_, accumulate_));
    tensors.push_back(updates.back()->update.value);
  }

  EXPECT_OK(Apply(UpdateBatcher::ZerosOf(tensors)));

  EXPECT_EQ(gpu_.num_launches(), 1);
}

TEST_F(UpdateBatcherTest, WithoutMemoryForTheTableNothingHasChanged) {
  const Update update(*pool_, accumulate_);
  const std::vector<TensorUpdate> batch(2000, update.update);
  {
    const uint64_t left = pool_->quota_bytes() - pool_->used_bytes();
    ASSERT_OK_AND_ASSIGN(const DeviceMemory rest, pool_->Allocate(left));
    EXPECT_THAT(Apply(batch), StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_OK(Apply({&update.update, 1}));
  }

  EXPECT_EQ(gpu_.num_launches(), 1);
  EXPECT_OK(Apply(batch));
}

TEST_F(UpdateBatcherTest, TableIsNoLargerThanNeededWhereThatIsAllThereIs) {
  const Update update(*pool_, accumulate_);
  std::vector<TensorUpdate> batch(2000, update.update);
  const size_t needed = UpdateTable::MaxSizesOf(batch).table_bytes;
  const uint64_t left = pool_->quota_bytes() - pool_->used_bytes();
  ASSERT_OK_AND_ASSIGN(const DeviceMemory rest,
                       pool_->Allocate(left - needed - kAllocationGranularity));

  EXPECT_OK(Apply(batch));
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
    return batcher_->ReserveForUpdates({&update, 1});
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

// Calls up to the launches: the order, the launch itself.
TEST_F(UpdateBatcherTest, FailureBeforeTheFirstLaunchLeavesTheDeviceUsable) {
  for (int call = 0; call < 2; ++call) {
    SetUp();
    const Update update(*pool_, accumulate_);
    gpu_.FailCall(call, absl::InternalError("injected"));

    EXPECT_THAT(Apply({&update.update, 1}),
                StatusIs(absl::StatusCode::kInternal, "injected"));

    EXPECT_OK(Apply({&update.update, 1}));
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
  gpu_.FailCall(2, absl::InternalError("second launch"));

  EXPECT_THAT(Apply({one.update, third.update}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("fake:0 has failed: second launch")));
  EXPECT_THAT(
      Apply({&other.update, 1}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("second launch")));
}

}  // namespace
}  // namespace tensorkv
