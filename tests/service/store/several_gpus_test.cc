// A store that keeps its tensors on two fake GPUs.

#include "tests/service/store/several_gpus.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "contract/row_ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device_pool.h"
#include "tests/testing/background.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using testing::Background;
using testing::CallbackOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

using testing::SeveralGpusTest;

TEST_F(SeveralGpusTest, KeysGoWhereMostIsFree) {
  ASSERT_OK(InitAll({"a", "b", "c"}, 1000));
  EXPECT_THAT(DevicesOf({"a", "b", "c"}),
              ElementsAre("fake:0", "fake:1", "fake:0"));

  ASSERT_OK(InitAll({"large"}, 20'000));
  ASSERT_OK(InitAll({"d", "e"}, 1000));

  EXPECT_THAT(DevicesOf({"large", "d", "e"}),
              ElementsAre("fake:1", "fake:0", "fake:0"));
}

TEST_F(SeveralGpusTest, OneCallReachesThemAll) {
  ASSERT_OK(InitAll({"a", "b"}, 1000));

  ASSERT_OK(PushAll({"b", "a"}, 1000, 7));

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"a", "b", "a"}));
  for (const Value& value : reply.values) {
    EXPECT_EQ(value.version, 2u);
    EXPECT_THAT(value.tensor.elements<float>(), Each(7));
  }
  ASSERT_OK_AND_ASSIGN(const StatReply stat,
                       store_->Stat({.keys = {"a", "b"}, .with_digest = true}));
  EXPECT_EQ(stat.keys[0].digest, stat.keys[1].digest);
}

TEST_F(SeveralGpusTest, StateIsWithItsKey) {
  ASSERT_OK(store_->SetRule(
      {.key_pattern = "*",
       .rule = RuleSpec{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}}}));
  ASSERT_OK(InitAll({"a", "b"}, 1000));

  ASSERT_OK(PushAll({"a", "b"}, 1000, 1));
  ASSERT_OK(PushAll({"a", "b"}, 1000, 1));

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"a", "b"}));
  for (const Value& value : reply.values) {
    EXPECT_THAT(value.tensor.elements<float>(), Each(-1.5));
  }
}

// Its copy waits for a slot meanwhile.
TEST_F(SeveralGpusTest, PushFollowsAKeyThatIsReplacedOnAnother) {
  ASSERT_OK(Init("w", Filled(1000, 1)));
  HoldSlots();
  Background push([&] { return Push("w", Filled(1000, 5)); });
  WaitForAllocation();
  InitRequest request;
  request.on_existing = OnExisting::kReplace;
  request.entries.push_back({"w", Filled(1000, 2)});
  EXPECT_OK(testing::InitNow(*store_, std::move(request)));
  EXPECT_THAT(DevicesOf({"w"}), ElementsAre("fake:1"));

  gpu_.Release(StreamUse::kToDevice);

  EXPECT_OK(push.Result());
  EXPECT_EQ(UseOf(0).values + UseOf(0).contributions, 0u);
  EXPECT_EQ(UseOf(1).values, 4000u);
  EXPECT_EQ(UseOf(1).contributions, 0u);
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"w"}));
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(5));
}

TEST_F(SeveralGpusTest, FailureOfOneIsThatOfItsKeys) {
  ASSERT_OK(InitAll({"a", "b"}, 1000));
  // The copy to it, then the update.
  other_gpu_.FailWork(1, absl::InternalError("gone"));

  EXPECT_THAT(PushAll({"a", "b"}, 1000, 7),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("applied to 1 keys, not to the others: "
                                 "fake:1 has failed: gone")));

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"a"}));
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(7));
  EXPECT_THAT(Pull({"a", "b"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
}

TEST_F(SeveralGpusTest, ReadOfRowsThatFailsOnOneSaysNothingOfWhatIsApplied) {
  InitRequest request;
  PullRequest pull;
  for (const char* const key : {"a", "b"}) {
    request.entries.push_back(
        {key, *Tensor::Filled(DType::kF32, {2, 2}, /*value=*/1)});
    const int64_t row = 0;
    pull.entries.push_back(
        {.key = key,
         .rows = *RowIds::Create(*Tensor::CopyOf(DType::kI64, {1}, &row))});
  }
  ASSERT_OK(testing::InitNow(*store_, std::move(request)));
  other_gpu_.FailWork(0, absl::InternalError("gone"));

  const Answer<absl::StatusOr<PullReply>> answer;
  store_->Pull(std::move(pull), {}, CallbackOf(answer));

  EXPECT_THAT(answer.Wait(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("gone"), Not(HasSubstr("applied to")))));
}

TEST_F(SeveralGpusTest, WhatAKeyTakesCountsWhereItIs) {
  ASSERT_OK(Init("a", Filled(10'000, 1)));
  ASSERT_OK(store_->SetRule(
      {.rule = RuleSpec{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}}}));
  ASSERT_OK(Init("b", Filled(1000, 1)));
  EXPECT_EQ(UseOf(0).values, 40'000u);
  EXPECT_EQ(UseOf(0).state, 40'000u);
  EXPECT_EQ(UseOf(1).values, 4000u);
  EXPECT_EQ(UseOf(1).state, 4000u);
  EXPECT_EQ(store_->DescribeNamespace("")->memory.state, 44'000u);
}

TEST_F(SeveralGpusTest, ContributionsAndTheirSumsCountWhereTheirKeyIs) {
  constexpr uint32_t kWorkers = 12;
  ASSERT_OK(store_->CreateNamespace(
      {.name_space = "sync",
       .config = {.mode = Mode::kSync, .num_workers = kWorkers}}));
  InitRequest init;
  init.name_space = "sync";
  init.entries.push_back({"first", Filled(2000, 1)});
  init.entries.push_back({"w", Filled(1000, 1)});
  ASSERT_OK(testing::InitNow(*store_, std::move(init)));
  const auto push = [&](uint32_t rank) {
    PushRequest request;
    request.name_space = "sync";
    request.worker = Worker{.rank = rank};
    request.step = 1;
    request.entries.push_back({"w", false, Filled(1000, 1)});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  };

  for (uint32_t rank = 0; rank < 7; ++rank) ASSERT_OK(push(rank));
  EXPECT_EQ(UseOf(1, "sync").contributions, 7 * 4000u);
  ASSERT_OK(push(7));
  while (UseOf(1, "sync").contributions != 4000u) std::this_thread::yield();
  EXPECT_EQ(UseOf(0, "sync").contributions, 0u);

  for (uint32_t rank = 8; rank < kWorkers; ++rank) ASSERT_OK(push(rank));
  while (UseOf(1, "sync").contributions != 0) std::this_thread::yield();
  EXPECT_EQ(UseOf(1, "sync").values, 4000u);
}

TEST_F(SeveralGpusTest, EachTakesItsBudgetAndTheHostAnotherOne) {
  ASSERT_OK(Init("a", Filled(kHalf, 1)));
  ASSERT_OK(Init("b", Filled(kHalf, 1)));
  EXPECT_THAT(DevicesOf({"a", "b"}), ElementsAre("fake:0", "fake:1"));

  EXPECT_THAT(Init("c", Filled(kHalf, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("server, fake:0: expected at most")));

  EXPECT_OK(store_->Delete({.keys = {"b"}}).status());
  EXPECT_OK(Init("c", Filled(kHalf, 1)));
  EXPECT_THAT(DevicesOf({"c"}), ElementsAre("fake:1"));
}

// What a push needs is reserved on every device before it takes effect.
TEST_F(SeveralGpusTest, PushThatOneHasNoRoomForIsRefusedWhole) {
  ASSERT_OK(Init("small", Filled(1000, 1)));
  ASSERT_OK(Init("large", Filled(kHalf, 1)));
  EXPECT_THAT(DevicesOf({"small", "large"}), ElementsAre("fake:0", "fake:1"));
  PushRequest request;
  request.entries.push_back({"small", false, Filled(1000, 7)});
  request.entries.push_back({"large", false, Filled(kHalf, 7)});
  const int num_copies = gpu_.num_copies();
  const int num_other_copies = other_gpu_.num_copies();

  const Answer<absl::StatusOr<PushReply>> answer;
  store_->Push(std::move(request), {}, CallbackOf(answer));

  EXPECT_THAT(answer.Wait(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("server, fake:1: expected at most")));
  EXPECT_EQ(gpu_.num_copies(), num_copies);
  EXPECT_EQ(other_gpu_.num_copies(), num_other_copies);
  ASSERT_OK_AND_ASSIGN(const StatReply stat, store_->Stat({.keys = {"small"}}));
  EXPECT_EQ(stat.keys[0].version, 1u);
  EXPECT_OK(Push("small", Filled(1000, 7)));
}

// Before any of them has begun.
TEST_F(SeveralGpusTest, ShortageOnOneLeavesThemAllAsTheyWere) {
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(absl::StrCat("k", i));
  ASSERT_OK(InitAll(keys, 1));
  // All but what the push takes, without the table of its updates.
  const DeviceUsage usage = other_backend_->usage();
  const RefPtr<Buffer> rest = *other_backend_->Allocate(
      usage.quota_bytes - usage.used_bytes - 500 * kBufferAlignment -
          kAllocationGranularity,
      nullptr);

  EXPECT_THAT(PushAll(keys, 1, 7),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("fake:1 memory")));

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull(keys));
  for (const Value& value : reply.values) {
    EXPECT_EQ(value.version, 1u);
    EXPECT_THAT(value.tensor.elements<float>(), Each(1));
  }
}

}  // namespace
}  // namespace tensorkv
