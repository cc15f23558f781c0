// Rounds: contributions of a sync namespace are held until every worker has
// contributed, then summed in rank order and applied once.

#include <cstdint>

#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;

auto JoinedRound(Step step) { return Field("step", &PushResult::step, step); }

TEST_P(SyncContractTest, RoundClosesWhenAllHaveContributed) {
  const Caller sync = NewSyncNamespace(3);
  ASSERT_OK(sync.Init("w", Full({2}, 100)));

  ASSERT_OK(sync.As(2).Push("w", Full({2}, 1), 1));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 2), 1));
  EXPECT_THAT(sync.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(100)))));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 3), 1));

  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(6)))));
}

TEST_P(SyncContractTest, PushNamesTheRoundItJoined) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  EXPECT_THAT(sync.As(0).Push("w", Full({2}, 1), 1),
              IsOkAndHolds(JoinedRound(1)));
  EXPECT_THAT(sync.As(0).Push("w", Full({2}, 1), 2),
              IsOkAndHolds(JoinedRound(2)));
  EXPECT_THAT(sync.As(1).Push("w", Full({2}, 1), 1),
              IsOkAndHolds(JoinedRound(1)));
}

TEST_P(SyncContractTest, RuleRunsOncePerRound) {
  const Caller sync = NewSyncNamespace(2, "sgd(learning_rate=1, momentum=0.5)");
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  for (Step step : {1, 2}) {
    ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), step));
    ASSERT_OK(sync.As(1).Push("w", Full({2}, 3), step));
  }

  // m = -4, w = -4; m = -6, w = -10.
  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(3), HasTensor(IsFilledWith(-10)))));
}

TEST_P(SyncContractTest, RoundsOfDifferentKeysAreIndependent) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));

  ASSERT_OK(sync.As(0).PushMany({{.key = "a", .tensor = Full({1}, 1)},
                                 {.key = "b", .tensor = Full({1}, 2)}},
                                1));
  ASSERT_OK(sync.As(1).Push("b", Full({1}, 3), 1));

  EXPECT_THAT(sync.Pull("a"), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(sync.As(0).Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
}

TEST_P(SyncContractTest, StepsMayBeSparseAsLongAsTheyRise) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({1}, 0)));

  for (Step step : {3, 7, 8}) {
    ASSERT_OK(sync.As(0).Push("w", Full({1}, 1), step));
    ASSERT_OK(sync.As(1).Push("w", Full({1}, 1), step));
  }

  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasVersion(4)));
}

TEST_P(SyncContractTest, AWorkerMayRunAheadOfTheOthers) {
  const Caller sync = NewSyncNamespace(2, "accumulate");
  ASSERT_OK(sync.Init("w", Full({1}, 0)));
  for (Step step : {1, 2, 3}) {
    ASSERT_OK(sync.As(0).Push("w", Full({1}, 1), step));
  }

  for (Step step : {1, 2, 3}) {
    ASSERT_OK(sync.As(1).Push("w", Full({1}, 10), step));
    EXPECT_THAT(sync.As(1).Pull("w"),
                IsOkAndHolds(HasTensor(IsFilledWith(11.0 * step))));
  }
}

TEST_P(SyncContractTest, SkipCountsAsAContribution) {
  const Caller sync = NewSyncNamespace(3);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
  EXPECT_THAT(sync.As(1).Skip("w", 1), IsOkAndHolds(JoinedRound(1)));
  ASSERT_OK(sync.As(2).Push("w", Full({2}, 4), 1));

  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
}

TEST_P(SyncContractTest, RoundThatAllSkipLeavesTheValue) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 7)));

  ASSERT_OK(sync.As(0).Skip("w", 1));
  ASSERT_OK(sync.As(1).Skip("w", 1));

  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
  EXPECT_EQ(sync.Describe()->rounds_open(), 0);
}

TEST_P(SyncContractTest, WorkerWaitsForTheRoundItContributedTo) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
  Background pull([&] { return sync.As(0).Pull("w"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(sync.As(1).Push("w", Full({2}, 2), 1));

  EXPECT_THAT(pull.Result(),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(3)))));
}

TEST_P(SyncContractTest, WorkerThatHasNotContributedDoesNotWait) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(sync.As(1).Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(SyncContractTest, WorkerThatSkippedWaitsToo) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Skip("w", 1));
  Background pull([&] { return sync.As(0).Pull("w"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(sync.As(1).Push("w", Full({2}, 2), 1));

  EXPECT_THAT(pull.Result(), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(SyncContractTest, DeadlineNamesTheMissingRanks) {
  const Caller sync = NewSyncNamespace(3);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));

  const absl::Status ended = EndOfWait(sync.As(0), [](const Caller& caller) {
    return caller.Pull("w").status();
  });

  EXPECT_THAT(ended,
              StatusIs(StatusCode::kDeadlineExceeded,
                       HasSubstr("round 1 of \"w\": waiting for ranks 1, 2")));
  EXPECT_THAT(ended,
              HasReason(Reason::kWaitEnded,
                        {{"key", "w"}, {"step", "1"}, {"ranks", "1,2"}}));
}

TEST_P(SyncContractTest, FailedWaitOfPushPullLeavesThePush) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));

  CancelOnceItWaits(sync, [&](const auto& canceller) {
    return sync.As(0)
        .EndedBy(canceller)
        .PushPull("w", Full({2}, 1), 1)
        .status();
  });

  EXPECT_THAT(sync.As(1).PushPull("w", Full({2}, 2), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(SyncContractTest, SecondPushOfNobodyInParticularAlreadyExists) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(sync.As(0).Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kAlreadyExists,
                       HasSubstr("round 1 of \"w\": somebody else has "
                                 "contributed as worker 0 already")));
  EXPECT_THAT(sync.As(0).Skip("w", 1), StatusIs(StatusCode::kAlreadyExists));
  EXPECT_GE(sync.Describe()->contributions_duplicate(), 1u);

  ASSERT_OK(sync.As(1).Push("w", Full({2}, 2), 1));
  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(SyncContractTest, StepDoesNotJump) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.InitMany({{"w", Full({2}, 5)}, {"x", Full({2}, 5)}}));

  for (Step step : {Step{5}, Step{1000000000}, Step{UINT64_MAX}}) {
    EXPECT_THAT(sync.As(0).Push("x", Full({2}, 1), step),
                StatusIs(StatusCode::kFailedPrecondition,
                         HasSubstr("expected at most 4")));
    EXPECT_OK(sync.As(0).PushMany({}, step)) << "which is not a contribution";
  }

  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 2), 1));
  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(SyncContractTest, StepThatAnotherWorkerPassedOverIsFailedPrecondition) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 4));

  EXPECT_THAT(
      sync.As(1).Push("w", Full({2}, 1), 3),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("\"w\""), HasSubstr("3"), HasSubstr("4"))));
}

TEST_P(SyncContractTest, OneBadEntryAndNoRoundIsJoined) {
  const Caller sync = NewSyncNamespace(1);
  ASSERT_OK(sync.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));
  ASSERT_OK(sync.As(0).Push("b", Full({1}, 1), 4));

  const auto push = sync.As(0).PushMany({{.key = "a", .tensor = Full({1}, 1)},
                                         {.key = "b", .tensor = Full({1}, 1)}},
                                        3);

  EXPECT_THAT(push, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(sync.Pull("a"), IsOkAndHolds(HasVersion(1)));
  EXPECT_OK(sync.As(0).Push("a", Full({1}, 1), 3));
}

TEST_P(SyncContractTest, PushNeedsAWorkerAndAStep) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));

  EXPECT_THAT(sync.Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("worker")));
  EXPECT_THAT(sync.As(0).Push("w", Full({2}, 1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("step")));
  EXPECT_THAT(sync.PushPull("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("worker")));
}

TEST_P(SyncContractTest, RankOutsideTheGroupIsInvalid) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  const auto is_invalid = StatusIs(StatusCode::kInvalidArgument,
                                   AllOf(HasSubstr("rank"), HasSubstr("2")));

  EXPECT_THAT(sync.As(2).Push("w", Full({2}, 1), 1), is_invalid);
  EXPECT_THAT(sync.As(2).Skip("w", 1), is_invalid);
  EXPECT_THAT(sync.As(2).Pull("w"), is_invalid);
  EXPECT_THAT(sync.As(4294967295).Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_P(SyncContractTest, FourRoundsMayBeOpenUnlessConfigured) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  for (Step step : {1, 2, 3, 4}) {
    ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), step));
  }

  EXPECT_EQ(sync.Describe()->rounds_open(), 4);
  EXPECT_EQ(sync.Describe()->config().max_open_rounds(), 4);
  EXPECT_EQ(sync.Describe()->config().max_workers(), 2);
  EXPECT_THAT(sync.As(0).Push("w", Full({2}, 1), 5),
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("\"w\""), HasSubstr("4"))));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 1), 1));
  EXPECT_OK(sync.As(0).Push("w", Full({2}, 1), 5));
}

TEST_P(SyncContractTest, ReplacedKeyEndsItsOpenRounds) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 3));
  Background pull([&] { return sync.As(0).Pull("w"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(sync.Init("w", Full({2}, 9), OnExisting::kReplace));

  EXPECT_THAT(pull.Result(),
              AllOf(StatusIs(StatusCode::kAborted, HasSubstr("was replaced")),
                    HasReason(Reason::kKeyReplaced, {{"key", "w"}})));
  // Nobody must push anything again, and the step may be pushed anew.
  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(9))));
  EXPECT_OK(sync.As(1).Push("w", Full({2}, 1), 3));
  EXPECT_OK(sync.As(0).Push("w", Full({2}, 1), 3));
  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(3), HasTensor(IsFilledWith(2)))));
}

TEST_P(SyncContractTest, DeleteEndsOpenRounds) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.InitMany({{"w", Full({2}, 5)}, {"other", Full({2}, 0)}}));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
  Background pull([&] { return sync.As(0).Pull("w"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(sync.Delete({"w"}));

  EXPECT_THAT(pull.Result(),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"w\"")));
  EXPECT_OK(sync.As(0).Push("other", Full({2}, 1), 1)) << "nothing is owed";
  EXPECT_EQ(sync.Describe()->rounds_open(), 1);
  EXPECT_EQ(sync.Describe()->rounds_failed(), 1);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  EXPECT_THAT(sync.Pull("w"), IsOkAndHolds(HasVersion(2)));
  EXPECT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
}

}  // namespace
}  // namespace tensorkv::testing
