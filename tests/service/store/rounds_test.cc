#include "service/store/rounds.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

Contribution Of(double value) {
  Contribution contribution;
  contribution.slots.emplace_back(*Tensor::Filled(DType::kF32, {1}, value));
  return contribution;
}

std::vector<float> ValuesOf(const ClosedRound& round) {
  std::vector<float> values;
  for (const Slot& slot : round.slots) {
    values.push_back(*reinterpret_cast<const float*>(slot.data));
  }
  return values;
}

class RoundsTest : public ::testing::Test {
 protected:
  std::optional<ClosedRound> Add(uint32_t rank, Step step, double value = 0) {
    EXPECT_OK(Check(rank, step));
    return rounds_.Add(rank, step, Of(value), {});
  }
  absl::Status Check(uint32_t rank, Step step) const {
    return rounds_.Check("w", rank, step);
  }

  Rounds rounds_{/*num_workers=*/3, /*max_open=*/2};
};

TEST_F(RoundsTest, ClosesWithTheLastWorker) {
  EXPECT_FALSE(Add(0, 1));
  EXPECT_FALSE(Add(2, 1));

  EXPECT_TRUE(Add(1, 1));

  EXPECT_EQ(rounds_.num_open(), 0u);
}

TEST_F(RoundsTest, ContributionsAreInRankOrder) {
  Add(2, 1, 22);
  Add(0, 1, 20);

  const std::optional<ClosedRound> closed = Add(1, 1, 21);

  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->step, 1u);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(20, 21, 22));
}

TEST_F(RoundsTest, SkippingCountsAsContributing) {
  rounds_.Add(0, 1, Contribution(), {});
  rounds_.Add(1, 1, Contribution(), {});

  const std::optional<ClosedRound> closed = Add(2, 1, 5);

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(5));
}

TEST_F(RoundsTest, SecondContributionToAStepExists) {
  Add(1, 1);

  EXPECT_THAT(Check(1, 1),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       "round 1 of \"w\": worker 1 has contributed already"));
}

TEST_F(RoundsTest, ClosedStepIsOver) {
  for (uint32_t rank = 0; rank < 3; ++rank) Add(rank, 4);

  EXPECT_THAT(Check(0, 4), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("expected a step above 4")));
  EXPECT_FALSE(Check(0, 3).ok());
  EXPECT_OK(Check(0, 5));
}

TEST_F(RoundsTest, WorkerMayNotPassOverAnOpenRound) {
  Add(0, 1);

  EXPECT_THAT(Check(1, 2),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("expected worker 1 to contribute to step 1")));
  EXPECT_OK(Check(0, 2));
}

TEST_F(RoundsTest, StepThatOthersPassedCannotOpen) {
  Add(0, 3);

  EXPECT_THAT(Check(1, 2), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("passed to step 3")));
}

TEST_F(RoundsTest, NumberOfOpenRoundsIsBounded) {
  Add(0, 1);
  Add(0, 2);

  EXPECT_THAT(Check(0, 3), StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("at most 2 open rounds")));
  EXPECT_OK(Check(1, 1));
}

TEST_F(RoundsTest, NamesTheRanksThatARoundWaitsFor) {
  Add(1, 7);

  EXPECT_TRUE(rounds_.HasOpenRoundOf(1));
  EXPECT_FALSE(rounds_.HasOpenRoundOf(0));
  EXPECT_EQ(rounds_.DescribeOpenRoundOf(1, "w"),
            "round 7 of \"w\": waiting for ranks 0, 2");
  Add(0, 7);
  EXPECT_EQ(rounds_.DescribeOpenRoundOf(1, "w"),
            "round 7 of \"w\": waiting for rank 2");
}

TEST_F(RoundsTest, RoomComesFromWhoeverOpensTheRound) {
  const auto account = MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("b", 100, nullptr));
  EXPECT_TRUE(rounds_.OpensRound(1));

  rounds_.Add(0, 1, Of(0), *Reservation::Create(account, 8));

  EXPECT_FALSE(rounds_.OpensRound(1));
  EXPECT_EQ(account->used_bytes(), 8u);
  rounds_.Add(1, 1, Of(0), {});
  {
    const std::optional<ClosedRound> closed = rounds_.Add(2, 1, Of(0), {});
    EXPECT_EQ(closed->room.bytes(), 8u);
  }
  EXPECT_EQ(account->used_bytes(), 0u);
}

class FoldTest : public ::testing::Test {
 protected:
  std::optional<ClosedRound> Add(uint32_t rank, double value) {
    return rounds_.Add(rank, 1, Of(value), {});
  }
  void AddFirst(uint32_t num_ranks) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) Add(rank, rank);
  }

  Rounds rounds_{/*num_workers=*/10, /*max_open=*/2};
};

TEST_F(FoldTest, WaitsForEnoughContributionsFromRankZeroOn) {
  for (uint32_t rank = 1; rank < 10; ++rank) Add(rank, rank);
  EXPECT_FALSE(rounds_.BeginFold(1));
}

TEST_F(FoldTest, TakesTheLeadingRanksInOrder) {
  AddFirst(8);
  Add(9, 9);

  const std::optional<Fold> fold = rounds_.BeginFold(1);

  ASSERT_TRUE(fold);
  EXPECT_EQ(fold->slots.size(), 8u);
  EXPECT_EQ(*reinterpret_cast<const float*>(fold->slots[7].data), 7);
  EXPECT_FALSE(rounds_.BeginFold(1)) << "one fold at a time";
}

TEST_F(FoldTest, SumTakesThePlaceOfWhatWasFolded) {
  AddFirst(8);
  rounds_.BeginFold(1);
  Add(9, 9);
  EXPECT_FALSE(rounds_.EndFold(1, Of(100)));

  const std::optional<ClosedRound> closed = Add(8, 8);

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(100, 8, 9));
}

TEST_F(FoldTest, RoundThatIsCompleteWaitsForItsFold) {
  AddFirst(8);
  rounds_.BeginFold(1);
  EXPECT_FALSE(Add(8, 8));
  EXPECT_FALSE(Add(9, 9));

  const std::optional<ClosedRound> closed = rounds_.EndFold(1, Of(100));

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(100, 8, 9));
}

TEST_F(FoldTest, FailedFoldKeepsTheContributions) {
  AddFirst(8);
  rounds_.BeginFold(1);
  EXPECT_FALSE(rounds_.EndFold(1, std::nullopt));
  Add(8, 8);

  const std::optional<ClosedRound> closed = Add(9, 9);

  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->slots.size(), 10u);
}

TEST_F(FoldTest, FoldedWorkerHasContributed) {
  AddFirst(8);
  rounds_.BeginFold(1);
  rounds_.EndFold(1, Of(100));

  EXPECT_THAT(rounds_.Check("w", 3, 1),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_TRUE(rounds_.HasOpenRoundOf(3));
}

}  // namespace
}  // namespace tensorkv
