// Keys that go from one fake GPU to another.

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/several_gpus.h"

namespace tensorkv {
namespace {

using testing::CallbackOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::StatusIs;

constexpr int64_t kSize = 10'000;
constexpr uint64_t kBytes = kSize * sizeof(float);

// Whether the GPUs read each other's memory.
class RebalanceTest : public testing::SeveralGpusTest,
                      public ::testing::WithParamInterface<bool> {
 protected:
  RebalanceTest() {
    if (!GetParam()) return;
    gpu_.AddPeer(&other_gpu_);
    other_gpu_.AddPeer(&gpu_);
  }

  // Keys "a", "b" and "c", all on the first GPU, and nothing on the other.
  void InitOnOne(const std::string& name_space = "") {
    InitRequest request;
    request.name_space = name_space;
    for (const char* const key : {"a", "x", "b", "y", "c", "z"}) {
      request.entries.push_back({key, Filled(kSize, 1)});
    }
    ASSERT_OK(testing::InitNow(*store_, std::move(request)));
    ASSERT_OK(
        store_->Delete({.name_space = name_space, .keys = {"x", "y", "z"}}));
  }
  // Keys "a", and "b" of four times the size, which stays; both on the first
  // GPU, also if "a" has a contribution and room for a new value there.
  void InitTwo(const std::string& name_space = "") {
    InitRequest request;
    request.name_space = name_space;
    request.entries = {{"b", Filled(4 * kSize, 1)},
                       {"x", Filled(5 * kSize, 1)},
                       {"a", Filled(kSize, 1)}};
    ASSERT_OK(testing::InitNow(*store_, std::move(request)));
    ASSERT_OK(store_->Delete({.name_space = name_space, .keys = {"x"}}));
  }
  absl::StatusOr<RebalanceNamespaceReply> Rebalance(
      const std::string& name_space = "") {
    return store_->RebalanceNamespace({.name_space = name_space});
  }
  int64_t NumCopies() const {
    return gpu_.num_copies() + other_gpu_.num_copies();
  }
};

INSTANTIATE_TEST_SUITE_P(, RebalanceTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Peers" : "NoPeers";
                         });

TEST_P(RebalanceTest, MovesWhatEvensOutTheBytes) {
  InitOnOne();
  EXPECT_THAT(DevicesOf({"a", "b", "c"}), Each("fake:0"));
  const int64_t copies_before = NumCopies();

  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply reply, Rebalance());

  EXPECT_EQ(reply.moved_keys, 1u);
  EXPECT_EQ(reply.moved_bytes, kBytes);
  EXPECT_EQ(reply.kept_keys, 0u);
  EXPECT_THAT(DevicesOf({"a", "b", "c"}),
              ElementsAre("fake:1", "fake:0", "fake:0"));
  EXPECT_EQ(UseOf(0).values, 2 * kBytes);
  EXPECT_EQ(UseOf(1).values, kBytes);
  // A kernel of the one that the key goes to reads it; else by the host.
  EXPECT_EQ(NumCopies() - copies_before, GetParam() ? 0 : 2);
  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply again, Rebalance());
  EXPECT_EQ(again.moved_keys, 0u);
}

TEST_P(RebalanceTest, NobodySeesTheDifference) {
  ASSERT_OK(store_->SetRule(
      {.rule = RuleSpec{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}}}));
  InitOnOne();
  ASSERT_OK(PushAll({"a", "b", "c"}, kSize, 1));
  ASSERT_OK_AND_ASSIGN(const StatReply before,
                       store_->Stat({.keys = {"a"}, .with_digest = true}));

  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply reply, Rebalance());

  EXPECT_EQ(reply.moved_bytes, 2 * kBytes);
  EXPECT_EQ(UseOf(1).state, kBytes);
  EXPECT_EQ(UseOf(0).state, 2 * kBytes);
  ASSERT_OK_AND_ASSIGN(const StatReply after,
                       store_->Stat({.keys = {"a"}, .with_digest = true}));
  EXPECT_EQ(after.keys[0].device, "fake:1");
  EXPECT_EQ(after.keys[0].version, before.keys[0].version);
  EXPECT_EQ(after.keys[0].digest, before.keys[0].digest);
  // Also the momentum.
  ASSERT_OK(PushAll({"a", "b"}, kSize, 1));
  ASSERT_OK_AND_ASSIGN(const PullReply pulled, Pull({"a", "b"}));
  for (const Value& value : pulled.values) {
    EXPECT_EQ(value.version, 3u);
    EXPECT_THAT(value.tensor.elements<float>(), Each(-1.5));
  }
}

TEST_P(RebalanceTest, KeyWithAnUpdateUnderWayStays) {
  InitTwo();
  ASSERT_OK(store_->SetRule({.rule = RuleSpec{"accumulate", {}}}));
  gpu_.Hold(StreamUse::kCompute);
  const Answer<absl::StatusOr<PushReply>> answer;
  PushRequest push;
  push.entries.push_back({"a", false, Filled(kSize, 1)});
  store_->Push(std::move(push), {}, CallbackOf(answer));
  gpu_.WaitForQueued(StreamUse::kCompute, 1);

  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply reply, Rebalance());

  EXPECT_EQ(reply.moved_keys, 0u);
  EXPECT_EQ(reply.kept_keys, 1u);
  gpu_.Release(StreamUse::kCompute);
  EXPECT_OK(answer.Wait());
  EXPECT_THAT(DevicesOf({"a"}), ElementsAre("fake:0"));
}

TEST_P(RebalanceTest, KeyWithAnOpenRoundStaysAndMovesAfterIt) {
  ASSERT_OK(store_->CreateNamespace(
      {.name_space = "sync",
       .config = {.mode = Mode::kSync, .num_workers = 2}}));
  InitTwo("sync");
  const auto push = [&](uint32_t rank, Step step) {
    PushRequest request;
    request.name_space = "sync";
    request.worker = Worker{.rank = rank};
    request.step = step;
    request.entries.push_back({"a", false, Filled(kSize, 1)});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  };
  const auto pull = [&](Version version) {
    const Answer<absl::StatusOr<PullReply>> answer;
    store_->Pull({.name_space = "sync", .entries = {{"a", version}}}, {},
                 CallbackOf(answer));
    return answer.Wait();
  };

  ASSERT_OK(push(0, 1));
  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply during, Rebalance("sync"));
  ASSERT_OK(push(1, 1));
  ASSERT_OK(pull(2));
  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply after, Rebalance("sync"));

  EXPECT_EQ(during.kept_keys, 1u);
  EXPECT_EQ(after.moved_keys, 1u);
  // Its rounds go on.
  EXPECT_THAT(push(0, 1), StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK(push(0, 2));
  ASSERT_OK(push(1, 2));
  ASSERT_OK_AND_ASSIGN(const PullReply reply, pull(3));
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(2));
}

// What was pushed while a key was copied is applied where that ends up.
TEST_P(RebalanceTest, PushesGoOnMeanwhile) {
  constexpr int kPushes = 200;
  ASSERT_OK(store_->SetRule({.rule = RuleSpec{"accumulate", {}}}));
  InitOnOne();
  std::atomic<bool> is_done = false;
  uint64_t num_moved = 0;
  std::thread pushing([&] {
    for (int i = 0; i < kPushes; ++i) {
      EXPECT_OK(PushAll({i % 2 == 0 ? "a" : "b"}, kSize, 1));
    }
    is_done = true;
  });
  // Of two large keys one takes the place of the other, on the other GPU.
  for (int i = 0; !is_done || num_moved == 0; ++i) {
    const std::string keys[] = {"large", "larger"};
    ASSERT_OK(Init(keys[i % 2], Filled(8 * kSize, 1)));
    ASSERT_OK(
        store_->Delete({.keys = {keys[1 - i % 2]}, .allow_missing = true}));
    ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply reply, Rebalance());
    num_moved += reply.moved_keys;
  }
  pushing.join();

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"a", "b"}));
  for (const Value& value : reply.values) {
    EXPECT_EQ(value.version, 1u + kPushes / 2);
    EXPECT_THAT(value.tensor.elements<float>(), Each(1 + kPushes / 2));
  }
  EXPECT_EQ(UseOf(0).values + UseOf(1).values, 11 * kBytes);
}

TEST_P(RebalanceTest, KeyForWhichThereIsNoRoomStays) {
  InitOnOne();
  const DeviceUsage usage = other_backend_->usage();
  const RefPtr<Buffer> rest = *other_backend_->Allocate(
      usage.quota_bytes - usage.used_bytes - 1000, nullptr);

  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply reply, Rebalance());

  EXPECT_EQ(reply.kept_keys, 1u);
  EXPECT_THAT(DevicesOf({"a", "b", "c"}), Each("fake:0"));
  EXPECT_EQ(UseOf(1).values, 0u);
}

// The copies of the others are made all the same.
TEST_P(RebalanceTest, KeyForSomeOfWhoseStatesThereIsNoRoomStays) {
  ASSERT_OK(store_->SetRule({.rule = RuleSpec{"adam", {}}}));
  InitOnOne();
  ASSERT_OK(PushAll({"a", "b", "c"}, kSize, 1));
  const DeviceUsage usage = other_backend_->usage();
  const RefPtr<Buffer> rest = *other_backend_->Allocate(
      usage.quota_bytes - usage.used_bytes - 2 * kBytes - 1000, nullptr);

  ASSERT_OK_AND_ASSIGN(const RebalanceNamespaceReply reply, Rebalance());

  EXPECT_EQ(reply.kept_keys, 1u);
  EXPECT_THAT(DevicesOf({"a", "b", "c"}), Each("fake:0"));
  EXPECT_EQ(UseOf(1).values, 0u);
  EXPECT_EQ(UseOf(1).state, 0u);
  EXPECT_OK(PushAll({"a", "b", "c"}, kSize, 1));
}

TEST_P(RebalanceTest, DeviceThatFailsLeavesKeysWhereTheyAre) {
  InitOnOne();
  other_gpu_.FailWork(0, absl::InternalError("gone"));

  EXPECT_THAT(Rebalance(), StatusIs(absl::StatusCode::kUnavailable));

  EXPECT_THAT(DevicesOf({"a", "b", "c"}), Each("fake:0"));
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"a"}));
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(1));
}

}  // namespace
}  // namespace tensorkv
