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

// The one round, or none.
std::optional<ClosedRound> OnlyOf(ClosedRounds rounds) {
  EXPECT_LE(rounds.size(), 1u);
  if (rounds.empty()) return std::nullopt;
  return std::move(rounds[0]);
}

WorkerGroupOptions GroupOf(uint32_t num_workers) {
  return {.min_workers = num_workers,
          .max_workers = num_workers,
          .on_worker_loss = OnWorkerLoss::kContinue};
}

class RoundsTest : public ::testing::Test {
 protected:
  std::optional<ClosedRound> Add(uint32_t rank, Step step, double value = 0) {
    EXPECT_OK(Check(rank, step));
    return OnlyOf(rounds_.Add(rank, step, Of(value), {}));
  }
  // Has all three workers join.
  void JoinAll() {
    for (const char* name : {"a", "b", "c"}) {
      workers_.push_back(*group_.Join(name, absl::Seconds(10), ++epoch_,
                                      group_.max_step(), absl::ZeroDuration()));
    }
  }
  absl::Status Check(uint32_t rank, Step step) const {
    return rounds_.Check("w", rank, step);
  }

  WorkerGroup group_{GroupOf(3)};
  std::vector<Worker> workers_;
  uint64_t epoch_ = 0;
  RoundPolicy policy_{.workers = &group_, .max_open = 2};
  Rounds rounds_{&policy_};
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
  EXPECT_EQ(rounds_.DescribeOpenRoundOf(1, "w", absl::ZeroDuration()),
            "round 7 of \"w\": waiting for ranks 0, 2");
  Add(0, 7);
  EXPECT_EQ(rounds_.DescribeOpenRoundOf(1, "w", absl::ZeroDuration()),
            "round 7 of \"w\": waiting for rank 2");
}

TEST_F(RoundsTest, RoomComesFromWhoeverOpensTheRound) {
  const auto account =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("b", 100));
  EXPECT_TRUE(rounds_.OpensRound(1));

  rounds_.Add(0, 1, Of(0), *Reservation::Create(account, 8));

  EXPECT_FALSE(rounds_.OpensRound(1));
  EXPECT_EQ(account->used_bytes(), 8u);
  rounds_.Add(1, 1, Of(0), {});
  {
    const std::optional<ClosedRound> closed =
        OnlyOf(rounds_.Add(2, 1, Of(0), {}));
    EXPECT_EQ(closed->room.bytes(), 8u);
  }
  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST_F(RoundsTest, GoesOnWithoutWhoHasLeft) {
  JoinAll();
  Add(0, 1, 20);
  Add(2, 1, 22);
  EXPECT_TRUE(rounds_.TakeComplete().empty());

  group_.Leave(workers_[1]);

  const std::optional<ClosedRound> closed = OnlyOf(rounds_.TakeComplete());
  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(20, 22));
  EXPECT_THAT(closed->ranks, ::testing::ElementsAre(0, 2));
}

TEST_F(RoundsTest, ContributionOfALostWorkerCounts) {
  JoinAll();
  Add(1, 1, 21);
  group_.Lose(1);
  Add(0, 1, 20);

  const std::optional<ClosedRound> closed = Add(2, 1, 22);

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(20, 21, 22));
}

TEST_F(RoundsTest, AllRoundsThatWaitedForOneCloseInTheirOrder) {
  JoinAll();
  for (Step step : {1, 2}) {
    Add(0, step);
    Add(1, step);
  }

  group_.Lose(2);

  const ClosedRounds closed = rounds_.TakeComplete();
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].step, 1u);
  EXPECT_EQ(closed[1].step, 2u);
}

TEST_F(RoundsTest, WhoComesLaterTakesNoPartInARoundUnderWay) {
  JoinAll();
  Add(0, 1);
  group_.Reach(workers_[0], 1);
  group_.Lose(2);
  ASSERT_OK(group_.Join("c", absl::Seconds(10), ++epoch_, group_.max_step(),
                        absl::ZeroDuration()));

  EXPECT_THAT(Check(2, 1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("joined after that step")));
  EXPECT_OK(Check(2, 2));
  EXPECT_TRUE(Add(1, 1));
}

TEST_F(RoundsTest, FailsTheRoundsThatNeedAWorker) {
  JoinAll();
  Add(0, 1);
  Add(1, 1);
  Add(1, 2);

  const ClosedRounds failed = rounds_.FailWithout(0);

  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].step, 2u);
  EXPECT_THAT(failed[0].ranks, ::testing::ElementsAre(1));
  EXPECT_EQ(rounds_.num_open(), 1u);
  EXPECT_OK(Check(1, 2)) << "the step may be pushed again";
}

class QuorumTest : public RoundsTest {
 protected:
  QuorumTest() { policy_.quorum = 2; }
};

TEST_F(QuorumTest, ClosesAfterTheGraceTime) {
  Add(0, 1, 20);
  EXPECT_FALSE(Add(2, 1, 22));

  const std::optional<ClosedRound> closed =
      OnlyOf(rounds_.EndGrace(1, rounds_.IdOf(1)));

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(20, 22));
}

TEST_F(QuorumTest, ClosesWithTheQuorumIfThatComesLater) {
  Add(0, 1);
  EXPECT_TRUE(rounds_.EndGrace(1, rounds_.IdOf(1)).empty());

  EXPECT_TRUE(Add(2, 1));
}

TEST_F(QuorumTest, LateContributionIsRefused) {
  Add(0, 1);
  Add(2, 1);
  rounds_.EndGrace(1, rounds_.IdOf(1));

  EXPECT_THAT(Check(1, 1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("above 1, which is closed")));
  EXPECT_TRUE(rounds_.IsClosed(1));
  EXPECT_OK(Check(1, 2));
}

TEST_F(QuorumTest, GraceOfAnEarlierRoundOfTheStepCountsNothing) {
  Add(0, 1);
  const uint64_t id = rounds_.IdOf(1);
  rounds_.FailAll();
  Add(0, 1);
  Add(1, 1);

  EXPECT_TRUE(rounds_.EndGrace(1, id).empty());
  EXPECT_EQ(rounds_.num_open(), 1u);
}

TEST_F(QuorumTest, PartialSumIsScaledBeforeTheRoundCloses) {
  policy_.rescales = true;
  Add(0, 1, 20);
  Add(2, 1, 22);
  EXPECT_TRUE(rounds_.EndGrace(1, rounds_.IdOf(1)).empty());

  const std::optional<Fold> fold = rounds_.BeginScaling();

  ASSERT_TRUE(fold);
  EXPECT_EQ(fold->scale, 1.5);
  EXPECT_EQ(fold->slots.size(), 2u);
  EXPECT_FALSE(Check(1, 1).ok()) << "it is too late";
  const std::optional<ClosedRound> closed =
      OnlyOf(rounds_.EndFold(*fold, Of(63)));
  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(63));
}

TEST_F(QuorumTest, RoundThatCannotBeScaledTakesLaterOnesAlong) {
  policy_.rescales = true;
  Add(0, 1, 20);
  Add(2, 1, 22);
  Add(0, 2);
  rounds_.EndGrace(1, rounds_.IdOf(1));
  const std::optional<Fold> fold = rounds_.BeginScaling();
  ASSERT_TRUE(fold);

  EXPECT_EQ(rounds_.Fail(1, fold->id).size(), 2u);

  EXPECT_TRUE(rounds_.EndFold(*fold, std::nullopt).empty());
  EXPECT_OK(Check(0, 1));
}

class FoldTest : public ::testing::Test {
 protected:
  std::optional<ClosedRound> Add(uint32_t rank, double value) {
    return OnlyOf(rounds_.Add(rank, 1, Of(value), {}));
  }
  std::optional<Fold> BeginFold() { return rounds_.BeginFold(); }
  std::optional<ClosedRound> EndFold(const std::optional<Fold>& fold,
                                     std::optional<Contribution> sum) {
    return OnlyOf(rounds_.EndFold(*fold, std::move(sum)));
  }
  void AddFirst(uint32_t num_ranks) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) Add(rank, rank);
  }

  WorkerGroup group_{GroupOf(10)};
  RoundPolicy policy_{.workers = &group_, .max_open = 2};
  Rounds rounds_{&policy_};
};

TEST_F(FoldTest, WaitsForEnoughContributionsFromRankZeroOn) {
  for (uint32_t rank = 1; rank < 10; ++rank) Add(rank, rank);
  EXPECT_FALSE(BeginFold());
}

TEST_F(FoldTest, TakesTheLeadingRanksInOrder) {
  AddFirst(8);
  Add(9, 9);

  const std::optional<Fold> fold = BeginFold();

  ASSERT_TRUE(fold);
  EXPECT_EQ(fold->slots.size(), 8u);
  EXPECT_EQ(*reinterpret_cast<const float*>(fold->slots[7].data), 7);
  EXPECT_FALSE(BeginFold()) << "one fold at a time";
}

TEST_F(FoldTest, SumTakesThePlaceOfWhatWasFolded) {
  AddFirst(8);
  const std::optional<Fold> fold = BeginFold();
  Add(9, 9);
  EXPECT_FALSE(EndFold(fold, Of(100)));

  const std::optional<ClosedRound> closed = Add(8, 8);

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(100, 8, 9));
}

TEST_F(FoldTest, RoundThatIsCompleteWaitsForItsFold) {
  AddFirst(8);
  const std::optional<Fold> fold = BeginFold();
  EXPECT_FALSE(Add(8, 8));
  EXPECT_FALSE(Add(9, 9));

  const std::optional<ClosedRound> closed = EndFold(fold, Of(100));

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(100, 8, 9));
}

TEST_F(FoldTest, FailedFoldKeepsTheContributions) {
  AddFirst(8);
  const std::optional<Fold> fold = BeginFold();
  EXPECT_FALSE(EndFold(fold, std::nullopt));
  Add(8, 8);

  const std::optional<ClosedRound> closed = Add(9, 9);

  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->slots.size(), 10u);
}

TEST_F(FoldTest, RoundsCloseInTheirOrderThoughTheFirstIsBeingFolded) {
  AddFirst(8);
  const std::optional<Fold> fold = BeginFold();
  for (uint32_t rank = 8; rank < 10; ++rank) Add(rank, rank);
  for (uint32_t rank = 0; rank < 10; ++rank) {
    EXPECT_TRUE(rounds_.Add(rank, 2, Of(0), {}).empty());
  }

  const ClosedRounds closed = rounds_.EndFold(*fold, Of(100));

  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].step, 1u);
  EXPECT_EQ(closed[1].step, 2u);
}

TEST_F(FoldTest, SumOfARoundThatHasFailedIsDropped) {
  AddFirst(8);
  const std::optional<Fold> fold = BeginFold();
  rounds_.FailAll();
  AddFirst(9);

  EXPECT_FALSE(EndFold(fold, Of(100)));

  EXPECT_EQ(Add(9, 9)->slots.size(), 10u);
}

TEST_F(FoldTest, FoldedWorkerHasContributed) {
  AddFirst(8);
  const std::optional<Fold> fold = BeginFold();
  EndFold(fold, Of(100));

  EXPECT_THAT(rounds_.Check("w", 3, 1),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_TRUE(rounds_.HasOpenRoundOf(3));
}

}  // namespace
}  // namespace tensorkv
