// Bounded staleness: applied at once, but nobody runs too far ahead.

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

NamespaceConfig Bounded(uint32_t num_workers, uint32_t staleness) {
  return {.mode = Mode::kBounded,
          .num_workers = num_workers,
          .rule = {.name = "accumulate"},
          .staleness = staleness};
}

TEST_P(BoundedContractTest, HasNoOptionsOfRounds) {
  for (NamespaceConfig config :
       {NamespaceConfig{.rescale_partial_rounds = true},
        NamespaceConfig{.quorum = 1},
        NamespaceConfig{.quorum_grace = absl::Seconds(1)},
        NamespaceConfig{.max_open_rounds = 1}}) {
    config.mode = Mode::kBounded;
    config.num_workers = 2;
    EXPECT_THAT(store_.In("n").Create(config),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("bounded")));
  }
}

TEST_P(BoundedContractTest, PushesAreAppliedAtOnce) {
  const Caller bounded = NewNamespace("b", Bounded(2, 1));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));

  ASSERT_OK(bounded.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(bounded.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(bounded.As(0).Pull("w"),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(BoundedContractTest, WorkerWaitsForTheSlowest) {
  const Caller bounded = NewNamespace("b", Bounded(2, 1));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  ASSERT_OK(bounded.As(0).Push("w", Full({2}, 1), 1));
  Background second(
      [&] { return bounded.As(0).PushPull("w", Full({2}, 1), 2); });
  AwaitWaitingCalls(bounded, 1);

  ASSERT_OK(bounded.As(1).Push("w", Full({2}, 10), 1));

  EXPECT_THAT(second.Result(), IsOkAndHolds(HasTensor(IsFilledWith(12))));
}

TEST_P(BoundedContractTest, WaitNamesTheSlowest) {
  const Caller bounded = NewNamespace("b", Bounded(2, 0));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  ASSERT_OK(bounded.As(0).Push("w", Full({2}, 1), 1));

  ExpectWaitNames("step 1: waiting for rank 1", bounded.As(0),
                  [](const Caller& caller) {
                    return caller.Push("w", Full({2}, 1), 2).status();
                  });

  EXPECT_THAT(bounded.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_TRUE(Eventually(
      [&] { return bounded.Describe()->memory().contributions() == 0; }));
}

TEST_P(BoundedContractTest, WaitEndsWithItsNamespace) {
  const Caller bounded = NewNamespace("b", Bounded(2, 0));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  ASSERT_OK(bounded.As(0).Push("w", Full({2}, 1), 1));
  Background second([&] { return bounded.As(0).Push("w", Full({2}, 1), 2); });
  AwaitWaitingCalls(bounded, 1);

  ASSERT_OK(bounded.Drop());

  EXPECT_THAT(second.Result(), StatusIs(StatusCode::kNotFound));
}

TEST_P(BoundedContractTest, WorkerThatLeavesHoldsNobodyUp) {
  const Caller bounded = NewNamespace("b", Bounded(2, 0));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  const Caller a = bounded.Join("a").value();
  const Caller b = bounded.Join("b").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));
  Background second([&] { return a.Push("w", Full({2}, 1), 2); });
  AwaitWaitingCalls(bounded, 1);

  ASSERT_OK(b.Leave());

  EXPECT_OK(second.Result());
}

// Fixed groups: each worker goes on with its own steps.
TEST_P(BoundedContractTest, WorkersGoOnWithTheirStepsWhenAllWereGone) {
  for (const OnWorkerLoss on_loss :
       {OnWorkerLoss::kFail, OnWorkerLoss::kContinue}) {
    for (const bool is_lost : {false, true}) {
      NamespaceConfig config = Bounded(2, 9);
      config.on_worker_loss = on_loss;
      const Caller bounded = NewNamespace("b", config);
      ASSERT_OK(bounded.Init("w", Full({2}, 0)));
      const Caller a = bounded.Join("a").value();
      const Caller b = bounded.Join("b").value();
      for (Step step = 1; step <= 5; ++step) {
        ASSERT_OK(a.Push("w", Full({2}, 1), step));
        ASSERT_OK(b.Push("w", Full({2}, 1), step));
      }
      ASSERT_OK(is_lost ? a.Fail() : a.Leave());
      ASSERT_OK(is_lost ? b.Fail() : b.Leave());

      ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                           bounded.TryJoin("a", absl::Minutes(1)));

      const bool repeats = is_lost && on_loss == OnWorkerLoss::kFail;
      EXPECT_EQ(joined.next_step(), repeats ? 5u : 6u);
      const Caller again = bounded.As(WorkerOf(joined.worker()));
      EXPECT_OK(again.Push("w", Full({2}, 1), joined.next_step()));
      EXPECT_OK(again.Push("w", Full({2}, 1), 6));
      EXPECT_THAT(again.Push("w", Full({2}, 1), 1),
                  HasReason(Reason::kStepGap));
      ASSERT_OK(bounded.Drop());
    }
  }
}

TEST_P(BoundedContractTest, NewcomerStartsAfterTheFurthest) {
  NamespaceConfig config = Bounded(1, 9);
  config.max_workers = 3;
  const Caller bounded = NewNamespace("b", config);
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  const Caller a = bounded.Join("a").value();
  for (Step step = 1; step <= 3; ++step) {
    ASSERT_OK(a.Push("w", Full({2}, 1), step));
  }

  ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                       bounded.TryJoin("b", absl::Minutes(1)));

  EXPECT_EQ(joined.next_step(), 4u);
  EXPECT_OK(bounded.As(WorkerOf(joined.worker())).Push("w", Full({2}, 1), 4));
}

TEST_P(BoundedContractTest, StepsDoNotGoBack) {
  const Caller bounded = NewNamespace("b", Bounded(2, 9));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  for (Step step = 1; step <= 3; ++step) {
    ASSERT_OK(bounded.As(0).Push("w", Full({2}, 1), step));
  }

  EXPECT_THAT(bounded.As(0).Push("w", Full({2}, 1), 2),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("expected 3, which it has reached, or the "
                                 "next, got 2")));
}

TEST_P(BoundedContractTest, StepsLeaveNoGap) {
  const Caller bounded = NewNamespace("b", Bounded(2, 0));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  ASSERT_OK(bounded.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(bounded.As(0).Push("w", Full({2}, 1), 3),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("got 3")));
  EXPECT_THAT(bounded.As(1).Push("w", Full({2}, 1), 2),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("got 2")));
}

TEST_P(BoundedContractTest, WorkerContributesToAKeyAndStepOnce) {
  const Caller bounded = NewNamespace("b", Bounded(2, 0));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  ASSERT_OK(bounded.Init("v", Full({2}, 0)));
  const Caller hasty = bounded.As(0);
  // The push is made; the read must wait.
  CancelOnceItWaits(bounded, [&](const auto& canceller) {
    return hasty.EndedBy(canceller).PushPull("w", Full({2}, 1), 1).status();
  });

  EXPECT_THAT(hasty.Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kAlreadyExists,
                       HasSubstr("step 1 of \"w\": somebody else has "
                                 "contributed as worker 0")));

  EXPECT_OK(hasty.Push("v", Full({2}, 1), 1));
  EXPECT_OK(bounded.As(1).Push("w", Full({2}, 1), 1));
  EXPECT_THAT(bounded.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(BoundedContractTest, RepeatOfAWorkerIsNotAppliedAgain) {
  const Caller bounded = NewNamespace("b", Bounded(1, 0));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));
  const Caller a = bounded.Join("a").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));

  EXPECT_THAT(
      a.Push("w", Full({2}, 5), 1),
      IsOkAndHolds(AllOf(HasVersion(2), Field(&PushResult::repeated, true))));

  EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_P(BoundedContractTest, PushNeedsAWorkerAndAStep) {
  const Caller bounded = NewNamespace("b", Bounded(2, 1));
  ASSERT_OK(bounded.Init("w", Full({2}, 0)));

  EXPECT_THAT(bounded.Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("worker")));
  EXPECT_THAT(bounded.As(0).Push("w", Full({2}, 1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("step")));
  EXPECT_THAT(bounded.As(2).Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("below 2")));
}

}  // namespace
}  // namespace tensorkv::testing
