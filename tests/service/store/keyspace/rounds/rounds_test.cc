#include "service/store/keyspace/rounds/rounds.h"

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/keyspace/rounds/contributions.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::GroupOf;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::Of;
using ::tensorkv::testing::OnlyOf;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

class RoundsTest : public ::testing::Test {
 protected:
  std::optional<ClosedRound> Add(uint32_t rank, Step step, double value = 0) {
    EXPECT_OK(Check(rank, step));
    return OnlyOf(rounds_.Add(By(rank), step, Of(value), {}));
  }
  // Closes and applies the round of that step.
  void AddAll(Step step, Version version) {
    for (uint32_t rank = 0; rank < 3; ++rank) Add(rank, step);
    rounds_.RecordApplied(step, version);
  }
  // Has all three workers join.
  void JoinAll() {
    for (const char* name : {"a", "b", "c"}) {
      workers_.push_back(*group_.Join(name, absl::Seconds(10), ++epoch_,
                                      /*replaces_epoch=*/0, group_.max_step(),
                                      absl::ZeroDuration()));
    }
  }
  static Contributor By(uint32_t rank) {
    return {.rank = rank, .identity = Contributor::kMember};
  }
  absl::StatusOr<std::optional<Version>> TryCheck(const Contributor& by,
                                                  Step step) const {
    ASSIGN_OR_RETURN(const auto round,
                     rounds_.Check("w", /*version=*/77, by, step));
    if (!round) return std::nullopt;
    return round->version;
  }
  // Whether the worker may contribute, which it has not done yet.
  absl::Status Check(uint32_t rank, Step step) const {
    const auto version = TryCheck(By(rank), step);
    if (version.ok() && *version) return absl::CancelledError("repeats");
    return version.status();
  }
  absl::Status Repush(uint32_t rank) const {
    return rounds_.CheckNothingToRepush("w", rank);
  }
  FailedRounds Fail(Step step) {
    return rounds_.FailFrom(step, std::make_shared<RoundFailure>(
                                      RoundFailure{"rank 5 was lost", {5}}));
  }

  WorkerGroup group_{GroupOf(3)};
  std::vector<Worker> workers_;
  uint64_t epoch_ = 0;
  SharedRounds shared_;
  RoundPolicy policy_{.workers = &group_, .shared = &shared_, .max_open = 2};
  Rounds rounds_{&policy_};
};

// The first two are a quorum.
class LateTest : public RoundsTest {
 protected:
  LateTest() {
    policy_.quorum = 2;
    policy_.carries = true;
  }
  std::optional<ClosedRound> Close(Step step, Version version) {
    Add(0, step, 1);
    rounds_.EndGrace(step, rounds_.IdOf(step));
    std::optional<ClosedRound> closed = Add(1, step, 2);
    if (version > 0) rounds_.RecordApplied(step, version);
    return closed;
  }
};

TEST_F(LateTest, IsAddedByRankAndStepAfterTheRoundsOwn) {
  Close(1, 2);
  Close(2, 3);
  Add(2, 2, 22);
  Add(2, 1, 21);

  EXPECT_THAT(ValuesOf(*Close(3, 4)), ElementsAre(1, 2, 21, 22));
  EXPECT_THAT(TryCheck(By(2), 1), IsOkAndHolds(Optional(4)));
  EXPECT_THAT(TryCheck({.rank = 2, .identity = 99}, 1),
              HasReason(Reason::kContributionExists));
  EXPECT_THAT(ValuesOf(*Close(4, 5)), ElementsAre(1, 2));
}

TEST_F(LateTest, IsPushedAgainWhenTheRoundFailsThatHasTakenIt) {
  Close(1, 2);
  Add(2, 1, 21);
  EXPECT_EQ(rounds_.Steps().first_unclosed, 1u);
  Close(2, /*version=*/0);
  EXPECT_EQ(rounds_.Steps().first_late, 1u);

  Fail(2);

  EXPECT_THAT(Repush(2), HasReason(Reason::kRoundFailed));
  EXPECT_EQ(shared_.to_repush.LowestOf(2, 0), 1u);
  EXPECT_EQ(shared_.to_repush.LowestOf(0, 0), 2u);
  Add(2, 1, 21);
  EXPECT_OK(Repush(2));
  EXPECT_THAT(ValuesOf(*Close(2, 3)), ElementsAre(1, 2, 21));
  EXPECT_TRUE(rounds_.is_idle());
}

// Nobody waits for ever for what cannot be carried any more.
TEST_F(LateTest, NeedNotBePushedAgainOnceItIsTooLate) {
  Close(1, 2);
  Add(2, 1, 21);
  Close(2, /*version=*/0);
  Fail(2);

  Close(2, 3);
  EXPECT_THAT(Repush(2), HasReason(Reason::kRoundFailed));
  Close(3, 4);

  EXPECT_OK(Repush(2));
  EXPECT_THAT(Check(2, 1), HasReason(Reason::kStepClosed));
  EXPECT_OK(Check(2, 2));
}

TEST_F(RoundsTest, RepeatIsKnownWhileTheRoundIsOpenAndAfterwards) {
  Add(1, 1);
  EXPECT_THAT(TryCheck(By(1), 1), IsOkAndHolds(Optional(0)));

  Add(0, 1);
  Add(2, 1);
  EXPECT_THAT(TryCheck(By(1), 1), IsOkAndHolds(Optional(0)));
  rounds_.RecordApplied(1, 8);

  EXPECT_THAT(TryCheck(By(1), 1), IsOkAndHolds(Optional(8)));
}

TEST_F(RoundsTest, RoundKeepsWhatItsValueHasReserved) {
  const auto account =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("b", 100));
  rounds_.Add(By(0), 1, Of(0), *Reservation::Create(account, 8));
  Add(1, 1);

  const std::optional<ClosedRound> closed = Add(2, 1);

  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->value_reservation.bytes(), 8u);
}

TEST_F(RoundsTest, OneMoreRoundThanMayBeOpenIsRemembered) {
  for (Step step = 1; step <= 4; ++step) AddAll(step, step + 1);

  EXPECT_THAT(TryCheck(By(0), 1).status(), HasReason(Reason::kStepClosed));
  for (Step step = 2; step <= 4; ++step) {
    EXPECT_THAT(TryCheck(By(0), step), IsOkAndHolds(Optional(step + 1)));
  }
}

TEST_F(RoundsTest, StepsToPushAgainCountAsOpenForThoseWhoComeLater) {
  JoinAll();
  for (Step step : {1, 2}) {
    Add(0, step);
    group_.Reach(workers_[0], step);
  }
  group_.Lose(2);
  Fail(1);
  ASSERT_OK(group_.Join("c", absl::Seconds(10), ++epoch_, /*replaces_epoch=*/0,
                        group_.max_step(), absl::ZeroDuration()));

  EXPECT_THAT(Check(2, 3), HasReason(Reason::kTooManyOpenRounds));
  for (Step step : {1, 2}) Add(0, step);
  EXPECT_TRUE(Add(1, 1));
  Add(2, 3);
  EXPECT_EQ(rounds_.num_open(), 2u);
}

TEST_F(RoundsTest, NoMoreRoundsOpenAgainThanMayBeOpen) {
  for (Step step : {1, 2, 3}) {
    for (uint32_t rank = 0; rank < 3; ++rank) Add(rank, step);
  }
  Fail(1);
  for (Step step : {1, 2}) Add(0, step);

  EXPECT_THAT(Check(0, 3), HasReason(Reason::kTooManyOpenRounds));
  Add(1, 1);
  EXPECT_TRUE(Add(2, 1));
  EXPECT_OK(Check(0, 3));
}

TEST_F(RoundsTest, RoundThatAllSkipIsAppliedWithTheOneBefore) {
  for (uint32_t rank = 0; rank < 3; ++rank) Add(rank, 1);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    rounds_.Add(By(rank), 2, Contribution(), {});
  }
  EXPECT_TRUE(rounds_.Awaits(0, 2));

  rounds_.RecordApplied(1, 5);

  EXPECT_FALSE(rounds_.Awaits(0, 2));
  EXPECT_THAT(TryCheck(By(0), 2), IsOkAndHolds(Optional(5)));
}

TEST_F(RoundsTest, AllRoundsThatWaitedForOneCloseInTheirOrder) {
  JoinAll();
  for (Step step : {1, 2}) {
    Add(0, step);
    Add(1, step);
  }

  group_.Lose(2);

  const ClosedRounds closed = rounds_.CloseComplete();
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].step, 1u);
  EXPECT_EQ(closed[1].step, 2u);
}

TEST_F(RoundsTest, WhoComesLaterTakesNoPartInARoundUnderWay) {
  JoinAll();
  Add(0, 1);
  group_.Reach(workers_[0], 1);
  group_.Lose(2);
  ASSERT_OK(group_.Join("c", absl::Seconds(10), ++epoch_, /*replaces_epoch=*/0,
                        group_.max_step(), absl::ZeroDuration()));

  EXPECT_THAT(Check(2, 1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("joined after this one")));
  EXPECT_OK(Check(2, 2));
  EXPECT_TRUE(Add(1, 1));
}

TEST_F(RoundsTest, StepToPushAgainIsNotPassedOverByOthers) {
  Add(0, 1);
  Fail(1);

  EXPECT_THAT(Check(2, 2), HasReason(Reason::kStepGap));
  EXPECT_OK(Check(2, 1));
}

TEST_F(RoundsTest, WhoComesLaterMayPassOverAStepThatOthersMustPushAgain) {
  JoinAll();
  Add(0, 1);
  group_.Reach(workers_[0], 1);
  group_.Leave(workers_[2]);
  Fail(1);
  ASSERT_OK(group_.Join("c", absl::Seconds(10), ++epoch_, /*replaces_epoch=*/0,
                        group_.max_step(), absl::ZeroDuration()));
  Add(2, 2);

  EXPECT_FALSE(Add(0, 1));
  EXPECT_TRUE(Add(1, 1));
  Add(0, 2);
  EXPECT_TRUE(Add(1, 2));
}

// A quorum had gone on without it, which shows no more once the round is open
// again.
TEST_F(RoundsTest, WhoWasPassedOverNeedNotGoBack) {
  policy_.quorum = 2;
  policy_.max_open = 3;
  JoinAll();
  Add(0, 1);
  Add(2, 1);
  ASSERT_TRUE(OnlyOf(rounds_.EndGrace(1, rounds_.IdOf(1))));
  Add(1, 2);

  Fail(1);

  EXPECT_OK(Check(1, 2));
  EXPECT_OK(Check(1, 1)) << "it may";
  Add(0, 1);
  Add(1, 2);
  EXPECT_OK(Check(1, 3));
  EXPECT_THAT(Check(0, 3), HasReason(Reason::kStepGap));
}

TEST_F(RoundsTest, RoundThatClosesWithoutAWorkerIsNotPushedAgainByIt) {
  JoinAll();
  Add(0, 1);
  Add(1, 1);
  Fail(1);
  group_.Lose(1);
  group_.Lose(2);

  EXPECT_TRUE(Add(0, 1));

  EXPECT_TRUE(rounds_.is_idle());
  EXPECT_FALSE(shared_.to_repush.Has(1));
}

TEST_F(RoundsTest, ClearedStepsAreNotPushedAgain) {
  Add(0, 1);
  Add(1, 1);
  Fail(1);

  rounds_.ClearRepush(0);
  EXPECT_OK(Repush(0));
  EXPECT_FALSE(rounds_.is_idle());
  rounds_.Abandon("it is gone");

  EXPECT_OK(Repush(1));
  EXPECT_TRUE(rounds_.is_idle());
  EXPECT_FALSE(shared_.to_repush.Has(1));
}

class QuorumTest : public RoundsTest {
 protected:
  QuorumTest() { policy_.quorum = 2; }
};

TEST_F(QuorumTest, ClosesWithTheQuorumIfThatComesLater) {
  Add(0, 1);
  EXPECT_TRUE(rounds_.EndGrace(1, rounds_.IdOf(1)).empty());

  EXPECT_TRUE(Add(2, 1));
}

// At another key the quorum was there, which has told the worker to go on.
TEST_F(QuorumTest, StepThatHasClosedElsewhereMayBePassedOver) {
  Add(2, 1);
  EXPECT_THAT(Check(0, 2), HasReason(Reason::kStepGap));

  group_.Close(1);

  EXPECT_OK(Check(0, 2));
  EXPECT_OK(Check(0, 1)) << "it may";
  EXPECT_OK(Check(1, 2));
}

// It was not saved with the key.
TEST_F(QuorumTest, StepThatHasClosedElsewhereOpensBelowALaterOne) {
  Add(2, 2);
  EXPECT_THAT(Check(0, 1), HasReason(Reason::kStepGap));

  group_.Close(1);

  Add(0, 1);
  EXPECT_TRUE(rounds_.EndGrace(1, rounds_.IdOf(1)).empty());
  EXPECT_TRUE(Add(1, 1));
}

TEST_F(QuorumTest, StepBelowALaterOneIsClosedForThoseWhoHaveGoneOn) {
  group_.Close(1);
  Add(2, 2);

  EXPECT_THAT(Check(2, 1), HasReason(Reason::kStepClosed));
  EXPECT_OK(Check(0, 1));
}

// It would never close, nor would any later one.
TEST_F(QuorumTest, StepThatNoQuorumCanComeToIsClosed) {
  group_.Close(1);
  Add(1, 2);
  Add(2, 2);

  EXPECT_THAT(Check(0, 1), HasReason(Reason::kStepClosed));
  EXPECT_OK(Check(0, 2));
}

TEST_F(QuorumTest, OpenRoundIsNotPassedOverByThoseWhomItsQuorumNeeds) {
  group_.Close(1);
  Add(0, 1);

  EXPECT_OK(Check(1, 2));
  Add(1, 2);
  EXPECT_THAT(Check(2, 2), HasReason(Reason::kStepGap));
  Add(2, 1);
  EXPECT_TRUE(OnlyOf(rounds_.EndGrace(1, rounds_.IdOf(1))));
  EXPECT_OK(Check(2, 2));
}

TEST_F(QuorumTest, GraceOfAnEarlierRoundOfTheStepCountsNothing) {
  Add(0, 1);
  const uint64_t id = rounds_.IdOf(1);
  Fail(1);
  Add(0, 1);
  Add(1, 1);

  EXPECT_TRUE(rounds_.EndGrace(1, id).empty());
  EXPECT_EQ(rounds_.num_open(), 1u);
}

TEST_F(QuorumTest, LowerQuorumCountsForEveryStepAndAHigherOneForLaterOnes) {
  policy_.SetQuorum(3, /*reached=*/4);
  EXPECT_EQ(policy_.QuorumOf(4), 2u);
  EXPECT_EQ(policy_.QuorumOf(5), 3u);

  policy_.SetQuorum(0, /*reached=*/9);
  EXPECT_EQ(policy_.QuorumOf(4), 2u);
  EXPECT_EQ(policy_.QuorumOf(9), 3u);
  EXPECT_EQ(policy_.QuorumOf(10), 0u);

  policy_.SetQuorum(1, /*reached=*/12);
  for (const Step step : {4, 9, 10, 13}) {
    EXPECT_EQ(policy_.QuorumOf(step), 1u);
  }
}

TEST_F(QuorumTest, FormerQuorumsAreFewAndNoneOfThemRises) {
  for (Step step = 1; step <= 100; ++step) {
    policy_.SetQuorum(1, step);
    policy_.SetQuorum(2, step);
  }

  EXPECT_LE(policy_.former_quorums.size(), 8u);
  EXPECT_EQ(policy_.QuorumOf(1), 1u);
  EXPECT_EQ(policy_.QuorumOf(100), 1u);
  EXPECT_EQ(policy_.QuorumOf(101), 2u);
}

// At another key the quorum may have closed the step, and the third worker has
// gone on.
TEST_F(QuorumTest, StepsThatWereReachedKeepTheirLowerQuorum) {
  group_.Close(1);
  Add(0, 1);
  policy_.SetQuorum(0, /*reached=*/1);

  EXPECT_OK(Check(2, 2));
  Add(2, 2);
  EXPECT_TRUE(rounds_.EndGrace(1, rounds_.IdOf(1)).empty());
  EXPECT_TRUE(Add(1, 1));
  EXPECT_FALSE(Add(1, 2));
  EXPECT_TRUE(rounds_.EndGrace(2, rounds_.IdOf(2)).empty());
}

TEST_F(QuorumTest, RoundsThatAreOpenAreScaledAsWhenTheyBegan) {
  Add(0, 1);
  policy_.rescales = true;
  Add(0, 2);
  Add(1, 1);
  Add(1, 2);

  EXPECT_TRUE(OnlyOf(rounds_.EndGrace(1, rounds_.IdOf(1))));
  EXPECT_TRUE(rounds_.EndGrace(2, rounds_.IdOf(2)).empty());
  EXPECT_EQ(rounds_.BeginScaling()->scale, 1.5);
}

TEST_F(QuorumTest, RoundThatCannotBeScaledTakesLaterOnesAlong) {
  policy_.rescales = true;
  Add(0, 1, 20);
  Add(2, 1, 22);
  Add(0, 2);
  rounds_.EndGrace(1, rounds_.IdOf(1));
  const std::optional<PartialSum> partial = rounds_.BeginScaling();
  ASSERT_TRUE(partial);
  EXPECT_EQ(partial->scale, 1.5);
  EXPECT_THAT(Check(1, 1), HasReason(Reason::kStepClosed)) << "it is too late";

  EXPECT_EQ(Fail(1).open.size(), 2u);

  std::optional<Contribution> none;
  EXPECT_TRUE(rounds_.EndPartialSum(*partial, none).empty());
  EXPECT_OK(Check(0, 1));
}

}  // namespace
}  // namespace tensorkv
