// Rounds of which some workers, or all, bring rows.

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/contracts/random_rows.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace rows_contract {

using ::testing::AllOf;

// Rounds beside single pushes in rank order, of which each brings a row once:
// what a worker brings for it is one contribution. Those of which some workers
// bring tensors update all rows: they are beside pushes of tensors alone.
void ExpectSumsInRankOrder(const Caller& sync, const Caller& async,
                           uint32_t num_workers) {
  std::mt19937 random(num_workers);
  ASSERT_OK(sync.Init("w", Table()));
  ASSERT_OK(async.Init("w", Table()));
  for (Step step = 1; step <= 6; ++step) {
    const bool has_tensors = step % 3 == 0;
    std::vector<std::pair<uint32_t, std::vector<PushEntry>>> pushes;
    std::vector<PushEntry> in_rank_order;
    for (uint32_t rank = 0; rank < num_workers; ++rank) {
      const RandomRows rows(random);
      const std::vector<PushEntry> dense = rows.Dense("w");
      std::vector<PushEntry> pushed = {rows.Entry("w")};
      if (has_tensors && rank % 3 == 1) pushed = dense;
      in_rank_order.push_back(has_tensors ? rows.SummedTensor("w")
                                          : rows.Summed("w"));
      pushes.emplace_back(rank, pushed);
    }
    std::shuffle(pushes.begin(), pushes.end(), random);
    for (const auto& [rank, entries] : pushes) {
      const Caller worker = sync.As(rank);
      ASSERT_OK(entries[0].rows ? worker.PushRows(entries, step)
                                : worker.PushMany(entries, step));
    }
    ASSERT_OK(has_tensors ? async.PushMany(in_rank_order)
                          : async.PushRows(in_rank_order));
    EXPECT_EQ(BytesOf(sync.As(0).Pull("w")->tensor),
              BytesOf(async.Pull("w")->tensor))
        << num_workers << " workers, step " << step;
  }
}

TEST_P(RowsContractTest, RoundsSumRowsInRankOrder) {
  for (const uint32_t num_workers : {2, 3, 20}) {
    const NamespaceConfig config = {.rule = ParseRuleSpec(kMomentum).value()};
    NamespaceConfig sync = config;
    sync.mode = Mode::kSync;
    sync.num_workers = num_workers;
    ExpectSumsInRankOrder(NewNamespace(absl::StrCat("s", num_workers), sync),
                          NewNamespace(absl::StrCat("a", num_workers), config),
                          num_workers);
  }
}

// A payload is decoded by rows, too.
TEST_P(RowsContractTest, RoundsSumRowsAndEncodedTensors) {
  const Caller sync = NewSyncNamespace(2, "accumulate");
  ASSERT_OK(sync.Init("w", Full({3, 3}, 0)));
  const Packing packing = {.kind = PackingKind::kTwoBit, .scale = 0.5};
  // + 0 - 0, + + + +, - 0 0 0: the middle row is 0 + +, and the last + + -.
  const char codes[] = "\xC8\xFF\x80";
  ASSERT_OK(sync.As(1).PushMany(
      {{.key = "w",
        .tensor = *Tensor::CopyOf(DType::kU8, {3}, codes),
        .encoding = *Encoding::Create(packing, DType::kF32, {3, 3})}},
      1));
  ASSERT_OK(sync.As(0).PushRows(
      {{.key = "w", .tensor = Full({2, 3}, 1), .rows = IdsOf({1, 1})}}, 1));
  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(HasTensor(
                  HasElements({0.5, 0, -0.5, 2, 2.5, 2.5, 0.5, 0.5, -0.5}))));
}

TEST_P(RowsContractTest, BoundedPushesOfRowsAreAppliedAtOnce) {
  const Caller bounded = NewNamespace("b", {.mode = Mode::kBounded,
                                            .num_workers = 1,
                                            .rule = {.name = "accumulate"},
                                            .staleness = 1});
  ASSERT_OK(bounded.Init("w", Full({4, 2}, 0)));
  const PushEntry entry = {
      .key = "w", .tensor = Full({2, 2}, 1), .rows = IdsOf({3, 3})};
  ASSERT_OK(bounded.As(0).PushRows({entry}, 1));
  ASSERT_OK(bounded.As(0).PushRows({entry}, 2));
  EXPECT_THAT(
      bounded.Pull("w"),
      IsOkAndHolds(AllOf(HasVersion(3),
                         HasTensor(HasElements({0, 0, 0, 0, 0, 0, 4, 4})))));
}

TEST_P(RowsContractTest, RoundWithoutAnyRowsLeavesTheValue) {
  const Caller sync = NewSyncNamespace(2, kMomentum);
  ASSERT_OK(sync.Init("w", Full({3, 2}, 1)));
  ASSERT_OK(sync.As(0).Skip("w", 1));
  ASSERT_OK(sync.As(1).PushRows(
      {{.key = "w", .tensor = Full({0, 2}, 0), .rows = IdsOf({})}}, 1));
  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasVersion(1)));
}

// Rows bring no room for a new value, which the tensor may need.
TEST_P(RowsContractTest, TensorClosesARoundThatAnEmptyListOpened) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({64, 64}, 1)));
  ASSERT_OK_AND_ASSIGN(const Value before, sync.Pull("w"));
  ASSERT_OK(sync.As(0).PushRows(
      {{.key = "w", .tensor = Full({0, 64}, 0), .rows = IdsOf({})}}, 1));
  ASSERT_OK(sync.As(1).Push("w", Full({64, 64}, 7), 1));
  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(7)))));
  EXPECT_TRUE(IsFilled(before.tensor, 1));
}

// So many contributions are added up to a tensor before the round closes.
TEST_P(RowsContractTest, RoundThatRowsOpenedIsAddedUpToATensor) {
  constexpr uint32_t kWorkers = 9;
  const Caller sync = NewSyncNamespace(kWorkers, "accumulate");
  ASSERT_OK(sync.Init("w", Full({64, 64}, 0)));
  ASSERT_OK_AND_ASSIGN(const Value before, sync.Pull("w"));
  ASSERT_OK(sync.As(0).PushRows(
      {{.key = "w", .tensor = Full({1, 64}, 1), .rows = IdsOf({0})}}, 1));
  for (uint32_t rank = 1; rank < kWorkers; ++rank) {
    ASSERT_OK(sync.As(rank).Push("w", Full({64, 64}, 1), 1));
  }
  std::vector<double> expected(64 * 64, kWorkers - 1);
  std::fill_n(expected.begin(), 64, kWorkers);
  EXPECT_THAT(
      sync.As(0).Pull("w"),
      IsOkAndHolds(AllOf(HasVersion(2), HasTensor(HasElements(expected)))));
  EXPECT_TRUE(IsFilled(before.tensor, 0));
}

// Of three workers one is lost: the sum of the others is made that of three.
TEST_P(RowsContractTest, PartialRoundsOfRowsAreScaled) {
  const Caller sync =
      NewNamespace("s", {.mode = Mode::kSync,
                         .num_workers = 3,
                         .rule = {.name = "accumulate"},
                         .on_worker_loss = OnWorkerLoss::kContinue,
                         .rescale_partial_rounds = true});
  ASSERT_OK(sync.Init("w", Full({4, 2}, 0)));
  const std::vector<Caller> workers = {
      sync.Join("a").value(), sync.Join("b").value(), sync.Join("c").value()};
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(workers[i].PushRows(
        {{.key = "w", .tensor = Full({2, 2}, 1), .rows = IdsOf({i, 3})}}, 1));
  }
  ASSERT_OK(workers[2].Fail());

  EXPECT_THAT(
      workers[0].Pull("w"),
      IsOkAndHolds(HasTensor(HasElements({1.5, 1.5, 1.5, 1.5, 0, 0, 3, 3}))));
}

// The step is pushed again by all who had pushed it, and counts once.
TEST_P(RowsContractTest, RoundOfRowsThatFailsIsPushedAgain) {
  const Caller sync = NewSyncNamespace(2, "accumulate");
  ASSERT_OK(sync.Init("w", Full({2, 1}, 0)));
  const Caller first = sync.Join("a").value();
  const Caller lost = sync.Join("b").value();
  const PushEntry entry = {
      .key = "w", .tensor = Full({1, 1}, 1), .rows = IdsOf({1})};
  ASSERT_OK(first.PushRows({entry}, 1));
  ASSERT_OK(lost.Fail());
  const absl::Status failed = first.PullRows({{"w", 0, IdsOf({1})}}).status();
  EXPECT_EQ(ReasonOf(failed), Reason::kRoundFailed) << failed;

  const Caller second = sync.Join("b").value();
  for (const Caller& worker : {first, second, first}) {
    ASSERT_OK(worker.PushRows({entry}, 1));
  }
  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       first.PullRows({{"w", 0, IdsOf({0, 1})}}));
  EXPECT_THAT(reply.values[0],
              AllOf(HasVersion(2), HasTensor(HasElements({0, 2}))));
}

}  // namespace rows_contract
}  // namespace tensorkv::testing
