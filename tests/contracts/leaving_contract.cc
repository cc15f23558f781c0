// Workers that are done, and workers that fail: a group of fixed size is whole
// or does not go on.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
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

constexpr absl::Duration kLease = absl::Minutes(5);

// A group with a key "w" of zeros, whose workers have joined as a, b, c.
struct Group {
  Caller name_space;
  std::vector<Caller> workers;
};

Group Grouped(const Caller& name_space, int num_workers) {
  EXPECT_OK(name_space.Init("w", Full({2}, 0)));
  Group group = {name_space, {}};
  for (int i = 0; i < num_workers; ++i) {
    group.workers.push_back(
        name_space.Join(std::string(1, static_cast<char>('a' + i))).value());
  }
  return group;
}

auto HasLeft(const std::string& ranks, Step step = 1) {
  return HasReason(
      Reason::kWorkerLeft,
      {{"key", "w"}, {"step", absl::StrCat(step)}, {"ranks", ranks}});
}

TEST_P(MembershipContractTest, LeaveEndsTheWaitsForItsRank) {
  const Group group = Grouped(NewSyncNamespace(3), 3);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[2].Push("w", Full({2}, 2), 1));
  Background wait([&] { return workers[0].PushPull("w", Full({2}, 1), 1); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(workers[1].Leave());

  EXPECT_THAT(wait.Result(),
              AllOf(StatusIs(StatusCode::kAborted), HasLeft("1")));
  EXPECT_THAT(workers[2].Pull("w"),
              StatusIs(StatusCode::kAborted,
                       HasSubstr("round 1 of \"w\": rank 1 (\"b\") has left")));
  EXPECT_THAT(sync.Pull("w"), IsOkAndHolds(HasVersion(1)));
  EXPECT_EQ(sync.Describe()->rounds_failed(), 0u);
}

TEST_P(MembershipContractTest, RankThatIsTakenAgainGoesOn) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[0].Push("w", Full({2}, 1), 1));
  ASSERT_OK(workers[1].Leave());
  EXPECT_THAT(workers[0].Pull("w"), HasLeft("1"));

  ASSERT_OK_AND_ASSIGN(const JoinReply joined, sync.TryJoin("new", kLease));

  EXPECT_EQ(joined.worker().rank(), 1u);
  EXPECT_EQ(joined.next_step(), 1u);
  EXPECT_FALSE(joined.lost_before());
  ASSERT_OK(sync.As(WorkerOf(joined.worker())).Push("w", Full({2}, 2), 1));
  EXPECT_THAT(workers[0].Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(MembershipContractTest, RoundClosesThatHasThePartOfOneThatLeft) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[1].Push("w", Full({2}, 2), 1));

  ASSERT_OK(workers[1].Leave());

  EXPECT_THAT(workers[0].PushPull("w", Full({2}, 1), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(workers[0].PushPull("w", Full({2}, 1), 2), HasLeft("1", 2));
}

TEST_P(MembershipContractTest, NewRunWaitsUntilAllHaveCome) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  for (const Caller& worker : workers) {
    ASSERT_OK(worker.Push("w", Full({2}, 1), 1));
  }
  for (const Caller& worker : workers) ASSERT_OK(worker.Leave());

  ASSERT_OK_AND_ASSIGN(const JoinReply first, sync.TryJoin("d", kLease));
  EXPECT_EQ(first.next_step(), 2u);
  const Caller d = sync.As(WorkerOf(first.worker()));
  ASSERT_OK(d.Push("w", Full({2}, 5), 2));
  CancelOnceItWaits(sync, [&](const auto& canceller) {
    return d.EndedBy(canceller).Pull("w").status();
  });
  ASSERT_OK_AND_ASSIGN(const JoinReply second, sync.TryJoin("e", kLease));

  EXPECT_EQ(second.next_step(), 2u);
  ASSERT_OK(sync.As(WorkerOf(second.worker())).Push("w", Full({2}, 6), 2));
  EXPECT_THAT(d.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(11))));
}

TEST_P(MembershipContractTest, BarrierEndsWithALeave) {
  const Group group = Grouped(NewSyncNamespace(3), 3);
  const auto& [sync, workers] = group;
  Background wait([&] { return workers[0].Barrier("b"); });
  AwaitWaitingCalls(sync, 1);
  const auto has_left = HasReason(Reason::kWorkerLeft, {{"ranks", "1"}});

  ASSERT_OK(workers[1].Leave());

  EXPECT_THAT(wait.Result(), AllOf(StatusIs(StatusCode::kAborted), has_left));
  EXPECT_THAT(workers[2].Barrier("b"), has_left);
}

TEST_P(MembershipContractTest, BarrierOfANewRunWaitsForAll) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  for (const Caller& worker : workers) ASSERT_OK(worker.Leave());
  const Caller d = sync.Join("d").value();
  Background wait([&] { return d.Barrier("b"); });
  AwaitWaitingCalls(sync, 1);

  const Caller e = sync.Join("e").value();

  EXPECT_OK(e.Barrier("b"));
  EXPECT_OK(wait.Result());
}

TEST_P(MembershipContractTest, GroupThatContinuesGoesOnWithoutWhoLeft) {
  const Group group =
      Grouped(NewNamespace("s", {.mode = Mode::kSync,
                                 .num_workers = 3,
                                 .on_worker_loss = OnWorkerLoss::kContinue}),
              3);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[2].Push("w", Full({2}, 2), 1));
  Background wait([&] { return workers[0].PushPull("w", Full({2}, 1), 1); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(workers[1].Leave());

  EXPECT_THAT(wait.Result(),
              IsOkAndHolds(AllOf(HasTensor(IsFilledWith(3)),
                                 Field(&Value::num_contributions, 2u))));
}

TEST_P(MembershipContractTest, QuorumDoesWithoutWhoLeft) {
  const Group group = Grouped(NewNamespace("s", {.mode = Mode::kSync,
                                                 .num_workers = 3,
                                                 .quorum = 2,
                                                 .quorum_grace = kLease / 10}),
                              3);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[1].Leave());
  ASSERT_OK(workers[2].Push("w", Full({2}, 2), 1));

  EXPECT_THAT(workers[0].PushPull("w", Full({2}, 1), 1),
              IsOkAndHolds(AllOf(HasTensor(IsFilledWith(3)),
                                 Field(&Value::num_contributions, 2u))));

  ASSERT_OK(workers[2].Leave());
  EXPECT_THAT(workers[0].PushPull("w", Full({2}, 1), 2), HasLeft("1,2", 2));
}

TEST_P(MembershipContractTest, PullSaysOfHowManyItsRoundWas) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[1].Skip("w", 1));
  const auto is_of = [](uint32_t number) {
    return IsOkAndHolds(Field(&Value::num_contributions, number));
  };

  EXPECT_THAT(workers[0].Pull("w"), is_of(0));
  EXPECT_THAT(workers[0].PushPull("w", Full({2}, 1), 1), is_of(2));
  EXPECT_THAT(workers[1].Pull("w"), is_of(2));
  EXPECT_THAT(sync.Pull("w"), is_of(0));
}

TEST_P(MembershipContractTest, WorkerThatSaysThatItFailsIsLostAtOnce) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  Background wait([&] { return workers[0].PushPull("w", Full({2}, 1), 1); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(workers[1].Fail());

  EXPECT_THAT(
      wait.Result(),
      AllOf(HasReason(Reason::kRoundFailed,
                      {{"key", "w"}, {"step", "1"}, {"ranks", "1"}}),
            StatusIs(StatusCode::kAborted, HasSubstr("(\"b\") has failed"))));
  EXPECT_THAT(workers[1].KeepAlive(), HasReason(Reason::kLeaseLost));
  EXPECT_EQ(sync.Describe()->lease_expirations(), 1u);
}

TEST_P(MembershipContractTest, FailureEndsBarriersAsALossDoes) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  Background wait([&] { return workers[0].Barrier("b"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(workers[1].Fail());

  EXPECT_THAT(wait.Result(), HasReason(Reason::kWorkerLost, {{"ranks", "1"}}));
}

TEST_P(MembershipContractTest, JoinTellsAComeback) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[0].Push("w", Full({2}, 1), 1));
  ASSERT_OK(workers[0].Fail());

  ASSERT_OK_AND_ASSIGN(const JoinReply comeback, sync.TryJoin("a", kLease));

  EXPECT_TRUE(comeback.lost_before());
  EXPECT_EQ(comeback.next_step(), 1u);
  ASSERT_OK(sync.As(WorkerOf(comeback.worker())).Leave());
  EXPECT_FALSE(sync.TryJoin("a", kLease)->lost_before());
  ASSERT_OK(workers[1].Fail());
  EXPECT_FALSE(sync.TryJoin("d", kLease)->lost_before());
}

// Who comes back has been a member all along, to those who have left.
TEST_P(MembershipContractTest, ComebackKnowsWhoHasLeftMeanwhile) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  ASSERT_OK(workers[0].Fail());
  ASSERT_OK(workers[1].Leave());

  const Caller a = sync.Join("a").value();

  EXPECT_THAT(a.PushPull("w", Full({2}, 1), 1), HasLeft("1"));
}

TEST_P(MembershipContractTest, StepAfterALeaveIsTheLowestThatIsAwaited) {
  const Group group = Grouped(NewSyncNamespace(2), 2);
  const auto& [sync, workers] = group;
  ASSERT_OK(sync.Init("v", Full({2}, 0)));
  ASSERT_OK(workers[0].Push("w", Full({2}, 1), 1));
  ASSERT_OK(workers[0].Push("v", Full({2}, 1), 1));
  ASSERT_OK(workers[1].Push("w", Full({2}, 1), 1));
  ASSERT_OK(workers[1].Leave());

  EXPECT_EQ(sync.TryJoin("b", kLease)->next_step(), 1u);
}

TEST_P(MembershipContractTest, AsyncWorkerGoesOnAfterItsLastStep) {
  const Caller async = NewNamespace("a", {});
  ASSERT_OK(async.Init("w", Full({2}, 0)));
  const Caller a = async.Join("a").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 5));
  ASSERT_OK(a.Leave());
  ASSERT_OK_AND_ASSIGN(const JoinReply back, async.TryJoin("a", kLease));
  EXPECT_EQ(back.next_step(), 6u);

  ASSERT_OK(async.As(WorkerOf(back.worker())).Fail());

  EXPECT_EQ(async.TryJoin("a", kLease)->next_step(), 6u);
  EXPECT_EQ(async.TryJoin("b", kLease)->next_step(), 1u);
}

TEST_P(MembershipContractTest, LargestStepIsRefused) {
  const Caller async = NewNamespace("a", {});
  ASSERT_OK(async.Init("w", Full({2}, 0)));
  const Caller a = async.Join("a").value();

  EXPECT_THAT(a.Push("w", Full({2}, 1), UINT64_MAX),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("step")));
  ASSERT_OK(a.Push("w", Full({2}, 1), UINT64_MAX - 1));
  EXPECT_EQ(a.KeepAlive()->next_step(), UINT64_MAX);
}

}  // namespace
}  // namespace tensorkv::testing
