// Workers that join, and what becomes of rounds and barriers without them.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

// One worker of each rank.
std::vector<Caller> JoinMany(const Caller& caller, int num_workers) {
  std::vector<Caller> workers;
  for (int i = 0; i < num_workers; ++i) {
    workers.push_back(caller.Join(absl::StrCat("worker-", i)).value());
  }
  return workers;
}

JoinRequest ToldJoin(const std::string& name, const Worker& worker) {
  return ToldJoinOf("sync", name, worker);
}

TEST_P(MembershipContractTest, JoinGivesRankEpochAndTheGroupsSize) {
  const Caller sync = NewSyncNamespace(2);

  ASSERT_OK_AND_ASSIGN(const JoinReply first,
                       sync.TryJoin("a", absl::Seconds(30)));
  ASSERT_OK_AND_ASSIGN(const JoinReply second,
                       sync.TryJoin("b", absl::Seconds(30)));

  EXPECT_EQ(first.worker().rank(), 0u);
  EXPECT_EQ(second.worker().rank(), 1u);
  EXPECT_NE(first.worker().epoch(), second.worker().epoch());
  EXPECT_EQ(second.num_workers(), 2u);
  EXPECT_EQ(second.lease().seconds(), 30);
  EXPECT_EQ(second.server_incarnation(),
            connection().Call(DescribeServerRequest())->incarnation());
}

TEST_P(MembershipContractTest, WrongLeasesAndNamesAreInvalid) {
  const Caller sync = NewSyncNamespace(1);
  const auto wrong_lease =
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("100ms to 1h"));

  EXPECT_THAT(sync.TryJoin("a", absl::ZeroDuration()), wrong_lease);
  EXPECT_THAT(sync.TryJoin("a", absl::Hours(24)), wrong_lease);
  EXPECT_THAT(sync.TryJoin("a", -absl::Seconds(1)), wrong_lease);
  EXPECT_THAT(sync.Join(""),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("worker")));
  EXPECT_THAT(sync.Join("a\n"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(sync.Join(std::string(257, 'a')),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("257")));
  ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                       sync.TryJoin("a", absl::Hours(1)));
  EXPECT_THAT(sync.As(WorkerOf(joined.worker())).Barrier(""),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("barrier")));
}

TEST_P(MembershipContractTest, GroupTakesNoMoreThanItsSize) {
  const Caller sync = NewSyncNamespace(2);
  JoinMany(sync, 2);

  EXPECT_THAT(
      sync.Join("worker-0"),
      StatusIs(StatusCode::kAlreadyExists,
               AllOf(HasSubstr("worker \"worker-0\""), HasSubstr("ends in "))));
  EXPECT_THAT(sync.Join("c"), StatusIs(StatusCode::kResourceExhausted,
                                       HasSubstr("at most 2 workers")));
}

TEST_P(MembershipContractTest, OldEpochIsFencedOff) {
  const Caller sync = NewSyncNamespace(1);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const Caller before = sync.Join("a").value();
  ASSERT_OK(before.Leave());
  const Caller after = sync.Join("a").value();
  const auto fenced =
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("expected epoch"));

  EXPECT_THAT(before.Push("w", Full({2}, 1), 1), fenced);
  EXPECT_THAT(before.Pull("w"), fenced);
  EXPECT_THAT(before.PushPull("w", Full({2}, 1), 1), fenced);
  EXPECT_THAT(before.KeepAlive(), fenced);
  EXPECT_THAT(before.Leave(), fenced);
  EXPECT_THAT(before.Barrier("b"), fenced);
  EXPECT_OK(after.Push("w", Full({2}, 1), 1));
  EXPECT_THAT(after.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_GE(sync.Describe()->contributions_fenced(), 2u);
}

TEST_P(MembershipContractTest, WorkerHasTheEpochThatItBrings) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK_AND_ASSIGN(
      const JoinReply joined,
      connection().Call(ToldJoin("a", {.rank = 1, .epoch = 7})));

  EXPECT_EQ(joined.worker().rank(), 1u);
  EXPECT_EQ(joined.worker().epoch(), 7u);
  EXPECT_OK(sync.As(WorkerOf(joined.worker())).KeepAlive());
  EXPECT_GT(sync.Join("b")->worker().epoch, 7u);
}

TEST_P(MembershipContractTest, LaterEpochTakesThePlaceOfTheWorkersFormerOne) {
  const Caller sync = NewSyncNamespace(2);
  const Caller before = sync.Join("a").value();
  const Worker later = {.rank = 0, .epoch = before.worker().epoch + 1};

  EXPECT_OK(connection().Call(ToldJoin("a", later)));
  EXPECT_OK(connection().Call(ToldJoin("a", later))) << "again";

  EXPECT_THAT(before.KeepAlive(), HasReason(Reason::kLeaseLost));
  EXPECT_OK(sync.As(later).KeepAlive());
  EXPECT_THAT(connection().Call(ToldJoin("a", before.worker())),
              HasReason(Reason::kLeaseLost));
  EXPECT_OK(sync.As(later).KeepAlive());
}

TEST_P(MembershipContractTest, EpochThatIsOverDoesNotComeBack) {
  const Caller sync = NewSyncNamespace(2);
  const Caller a = sync.Join("a").value();
  ASSERT_OK(a.Leave());

  EXPECT_THAT(connection().Call(ToldJoin("a", a.worker())),
              HasReason(Reason::kLeaseLost));
  EXPECT_THAT(connection().Call(ToldJoin("b", a.worker())),
              HasReason(Reason::kLeaseLost));
  EXPECT_THAT(
      connection().Call(ToldJoin("a", {.rank = 1, .epoch = a.worker().epoch})),
      HasReason(Reason::kLeaseLost));
  EXPECT_OK(connection().Call(
      ToldJoin("b", {.rank = 0, .epoch = a.worker().epoch + 1})));
}

TEST_P(MembershipContractTest, RankOfALiveWorkerIsItsOwn) {
  const Caller sync = NewSyncNamespace(2);
  const Caller a = sync.Join("a").value();
  const uint64_t later = a.worker().epoch + 1;

  EXPECT_THAT(connection().Call(ToldJoin("b", {.rank = 0, .epoch = later})),
              HasReason(Reason::kWorkerNameTaken));
  EXPECT_OK(a.KeepAlive());
}

// The home has lost it, and given its rank to another one meanwhile.
TEST_P(MembershipContractTest, LaterEpochTakesAWorkerToAnotherRank) {
  const Caller sync = NewSyncNamespace(2);
  const Caller before = sync.Join("a").value();
  const Worker later = {.rank = 1, .epoch = before.worker().epoch + 1};

  EXPECT_OK(connection().Call(ToldJoin("a", later)));

  EXPECT_THAT(before.KeepAlive(), HasReason(Reason::kLeaseLost));
  EXPECT_OK(sync.As(later).KeepAlive());
}

TEST_P(MembershipContractTest, EpochsAreBoundedAndComeWithARank) {
  const Caller sync = NewSyncNamespace(2);
  const uint64_t now = absl::ToUnixNanos(absl::Now());
  const uint64_t hour = absl::ToInt64Nanoseconds(absl::Hours(1));
  const uint64_t early = now + 23 * hour;
  const uint64_t late = now + 25 * hour;
  JoinRequest without_rank = ToldJoin("a", {.epoch = 7});
  without_rank.clear_rank();

  EXPECT_THAT(connection().Call(without_rank),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank")));
  EXPECT_THAT(connection().Call(ToldJoin("a", {.rank = 0, .epoch = late})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("epoch")));

  ASSERT_OK(connection().Call(ToldJoin("a", {.rank = 0, .epoch = early})));
  EXPECT_OK(sync.As({.rank = 0, .epoch = early}).Leave());
}

TEST_P(MembershipContractTest, WorkersOfADeletedNamespaceAreFencedOff) {
  const Caller before = NewSyncNamespace(1).Join("a").value();
  ASSERT_OK(before.Drop());
  const Caller sync = NewSyncNamespace(1);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.Join("a"));

  EXPECT_THAT(before.Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("worker 0: expected epoch")));
}

TEST_P(MembershipContractTest, WhoHasNotJoinedCannotContribute) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.Join("a"));
  const auto no_member = StatusIs(StatusCode::kFailedPrecondition,
                                  HasSubstr("expected a worker that has"));

  EXPECT_THAT(sync.As(1).Push("w", Full({2}, 1), 1), no_member);
  EXPECT_THAT(sync.As(1).Barrier("b"), no_member);
  EXPECT_THAT(sync.As(1).KeepAlive(), no_member);
  EXPECT_THAT(sync.As(1).Leave(), no_member);
  EXPECT_THAT(sync.As({.rank = 1, .epoch = 77}).Push("w", Full({2}, 1), 1),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("no worker has joined")));
}

TEST_P(MembershipContractTest, ContributionIsMadeOnceHoweverOftenItComes) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.InitMany({{"v", Full({2}, 0)}, {"w", Full({2}, 0)}}));
  const Caller a = sync.Join("a").value();
  const Caller b = sync.Join("b").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));

  // By another call, with other elements, with a key that is new to the step.
  ASSERT_OK(a.PushMany({{.key = "v", .tensor = Full({2}, 5)},
                        {.key = "w", .tensor = Full({2}, 77)}},
                       1));
  ASSERT_OK(a.Skip("w", 1));
  ASSERT_OK(b.Push("w", Full({2}, 2), 1));
  EXPECT_THAT(a.PushPull("w", Full({2}, 88), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(3))))
      << "the round has closed";
  ASSERT_OK(b.Push("v", Full({2}, 1), 1));
  EXPECT_THAT(a.Pull("v"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
  EXPECT_EQ(sync.Describe()->contributions_duplicate(), 0u);
}

TEST_P(MembershipContractTest, NobodyJoinsWhereWorkersHaveNotJoined) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(sync.Join("a"), StatusIs(StatusCode::kFailedPrecondition,
                                       HasSubstr("do not join")));
}

TEST_P(MembershipContractTest, StepsNeitherGoBackNorLeaveGaps) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const std::vector<Caller> workers = JoinMany(sync, 2);
  for (const Caller& worker : workers) {
    ASSERT_OK(worker.Push("w", Full({2}, 1), 3));
  }
  ASSERT_OK(workers[0].Push("w", Full({2}, 1), 4));

  EXPECT_THAT(workers[1].Push("w", Full({2}, 1), 2),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("round 2 of \"w\": expected a step above 3")));
  EXPECT_THAT(workers[1].Push("w", Full({2}, 1), 5),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("expected worker 1 to contribute to step 4")));
  EXPECT_OK(workers[0].Push("w", Full({2}, 1), 4)) << "a repeat";
  EXPECT_EQ(sync.Describe()->contributions_late(), 1u);
}

TEST_P(MembershipContractTest, LossFailsTheRoundAndNamesTheRank) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.InitMany({{"w", Full({2}, 5)}, {"other", Full({2}, 5)}}));
  const Caller a = sync.Join("a").value();
  ASSERT_OK(sync.Join("b", /*lease=*/absl::Seconds(1)));

  EXPECT_THAT(a.PushPull("w", Full({2}, 1), 3),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("round 3 of \"w\" failed"),
                             HasSubstr("rank 1 (\"b\") lost its lease"))));

  EXPECT_THAT(sync.Pull("w"), IsOkAndHolds(HasVersion(1)));
  EXPECT_EQ(sync.Describe()->rounds_failed(), 1u);
  EXPECT_THAT(a.Pull("w"), StatusIs(StatusCode::kAborted));
  EXPECT_THAT(a.Push("w", Full({2}, 1), 4), StatusIs(StatusCode::kAborted));
  EXPECT_OK(a.Push("other", Full({2}, 1), 4)) << "other keys are not touched";
  EXPECT_EQ(a.KeepAlive()->next_step(), 3u);
  EXPECT_OK(a.Push("w", Full({2}, 1), 3));
}

TEST_P(MembershipContractTest, LostWorkerComesBackWithANewEpoch) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  const Caller a = sync.Join("a").value();
  const Caller lost = sync.Join("b").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));
  ASSERT_OK(lost.Fail());
  EXPECT_THAT(a.Pull("w"), StatusIs(StatusCode::kAborted));

  ASSERT_OK_AND_ASSIGN(const Caller b, sync.Join("b"));

  EXPECT_EQ(b.worker().rank, lost.worker().rank);
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));
  ASSERT_OK(b.Push("w", Full({2}, 2), 1));
  EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(lost.Push("w", Full({2}, 1), 2),
              StatusIs(StatusCode::kFailedPrecondition));
}

// Who comes back may find that the round of its former self fails after all.
TEST_P(MembershipContractTest, FailedRoundIsToBePushedAgain) {
  const Caller sync = NewSyncNamespace(3);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  const Caller a = sync.Join("a").value();
  const Caller former = sync.Join("b").value();
  ASSERT_OK(former.Push("w", Full({2}, 1), 1));
  ASSERT_OK(former.Fail());
  ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                       sync.TryJoin("b", absl::Minutes(5)));
  EXPECT_EQ(joined.next_step(), 1u);
  const Caller b = sync.As(WorkerOf(joined.worker()));
  const Caller c = sync.Join("c").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));

  ASSERT_OK(c.Fail());

  EXPECT_THAT(a.Pull("w"), StatusIs(StatusCode::kAborted));

  EXPECT_EQ(a.KeepAlive()->next_step(), 1u);
  EXPECT_EQ(b.KeepAlive()->next_step(), 1u);
  EXPECT_THAT(b.Pull("w"), StatusIs(StatusCode::kAborted,
                                    HasSubstr("round 1 of \"w\" failed")));
  EXPECT_OK(b.Push("w", Full({2}, 1), 1));
  EXPECT_EQ(b.KeepAlive()->next_step(), 1u);
}

// The rank of a lost worker goes to another one, who has no part in what the
// former one has begun, even if that fails.
TEST_P(MembershipContractTest, WorkerGetsTheRankThatItNames) {
  const Caller sync =
      NewNamespace("s", {.mode = Mode::kSync, .num_workers = 3});
  const auto join = [&](const std::string& name, uint32_t rank) {
    return connection().Call(JoinOf("s", name, absl::Minutes(5), rank));
  };

  EXPECT_EQ(join("c", 2)->worker().rank(), 2u);
  EXPECT_EQ(sync.Join("a")->worker().rank, 0u);
  EXPECT_THAT(join("b", 2), HasReason(Reason::kWorkerNameTaken));
  EXPECT_THAT(join("b", 3), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(join("b", 1)->worker().rank(), 1u);
}

TEST_P(MembershipContractTest, SuccessorHasNoPartInOlderRounds) {
  const Caller elastic = NewNamespace(
      "e", {.mode = Mode::kSync, .num_workers = 2, .max_workers = 4});
  ASSERT_OK(elastic.Init("w", Full({2}, 0)));
  const Caller a = elastic.Join("a").value();
  const Caller b = elastic.Join("b").value();
  const Caller c = elastic.Join("c").value();
  ASSERT_OK(b.Push("w", Full({2}, 1), 1));
  ASSERT_OK(b.Fail());
  ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                       elastic.TryJoin("d", absl::Minutes(5)));
  const Caller d = elastic.As(WorkerOf(joined.worker()));
  EXPECT_EQ(joined.worker().rank(), 1u);
  EXPECT_EQ(joined.next_step(), 2u);
  EXPECT_THAT(d.Pull("w"), IsOkAndHolds(HasVersion(1)));
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));

  ASSERT_OK(c.Fail());

  EXPECT_THAT(a.Pull("w"),
              StatusIs(StatusCode::kAborted, HasSubstr("rank 2 (\"c\")")));

  EXPECT_EQ(d.KeepAlive()->next_step(), 2u);
  EXPECT_THAT(d.Pull("w"), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(a.PushPull("w", Full({2}, 1), 1), IsOkAndHolds(HasVersion(2)));
  ASSERT_OK(d.Push("w", Full({2}, 1), 2));
  EXPECT_THAT(a.PushPull("w", Full({2}, 1), 2), IsOkAndHolds(HasVersion(3)));
}

// As who makes steps again that others have gone back to.
TEST_P(MembershipContractTest, PushPullOfAnEarlierStepWaitsForNoLaterOne) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  const Caller a = sync.Join("a").value();
  const Caller b = sync.Join("b").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));
  ASSERT_OK(b.Push("w", Full({2}, 2), 1));
  ASSERT_OK(a.Push("w", Full({2}, 1), 2));

  EXPECT_THAT(a.PushPull("w", Full({2}, 1), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
  CancelOnceItWaits(sync, [&](const auto& canceller) {
    return a.EndedBy(canceller).PushPull("w", Full({2}, 1), 2).status();
  });
}

TEST_P(MembershipContractTest, PushPullMayHaveToPushLaterStepsAgain) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 5)));
  const Caller a = sync.Join("a").value();
  const Caller b = sync.Join("b").value();
  ASSERT_OK(a.Push("w", Full({2}, 1), 1));
  ASSERT_OK(b.Push("w", Full({2}, 2), 1));
  ASSERT_OK(a.Push("w", Full({2}, 1), 2));
  ASSERT_OK(b.Fail());

  EXPECT_THAT(a.PushPull("w", Full({2}, 1), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(a.Pull("w"), StatusIs(StatusCode::kAborted));
}

TEST_P(MembershipContractTest, GroupGoesOnWithoutTheLost) {
  for (const bool rescales : {false, true}) {
    const Caller sync = NewNamespace(rescales ? "rescales" : "sums",
                                     {.mode = Mode::kSync,
                                      .num_workers = 2,
                                      .on_worker_loss = OnWorkerLoss::kContinue,
                                      .rescale_partial_rounds = rescales});
    ASSERT_OK(sync.Init("w", Full({2}, 5)));
    const Caller a = sync.Join("a").value();
    const Caller b = sync.Join("b").value();
    ASSERT_OK(a.Push("w", Full({2}, 3), 1));

    ASSERT_OK(b.Fail());

    EXPECT_THAT(a.Pull("w"),
                IsOkAndHolds(HasTensor(IsFilledWith(rescales ? 6 : 3))));
    EXPECT_THAT(a.PushPull("w", Full({2}, 4), 2),
                IsOkAndHolds(HasTensor(IsFilledWith(rescales ? 8 : 4))));
  }
}

TEST_P(MembershipContractTest, ElasticGroupGrows) {
  const Caller sync = NewNamespace(
      "s", {.mode = Mode::kSync, .num_workers = 1, .max_workers = 2});
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const Caller a = sync.Join("a").value();
  EXPECT_EQ(a.KeepAlive()->num_workers(), 1u);
  ASSERT_OK(a.Push("w", Full({2}, 1), 4));

  ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                       sync.TryJoin("b", absl::Minutes(1)));

  EXPECT_EQ(joined.next_step(), 5u);
  const Caller b = sync.As(WorkerOf(joined.worker()));
  EXPECT_THAT(b.Push("w", Full({2}, 1), 4),
              StatusIs(StatusCode::kFailedPrecondition));
  ASSERT_OK(a.Push("w", Full({2}, 2), 5));
  EXPECT_THAT(sync.Pull("w", 2), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  ASSERT_OK(b.Push("w", Full({2}, 4), 5));
  EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
  EXPECT_THAT(sync.Join("c"), StatusIs(StatusCode::kResourceExhausted));
}

TEST_P(MembershipContractTest, QuorumClosesWithoutTheStraggler) {
  const Caller sync =
      NewNamespace("s", {.mode = Mode::kSync,
                         .num_workers = 3,
                         .quorum = 2,
                         .quorum_grace = absl::Milliseconds(50)});
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(sync.As(1).PushPull("w", Full({2}, 2), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));

  EXPECT_THAT(
      sync.As(2).Push("w", Full({2}, 4), 1),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("round 1 of \"w\"")));
  EXPECT_EQ(sync.Describe()->contributions_late(), 1u);
  EXPECT_OK(sync.As(2).Push("w", Full({2}, 4), 2));
}

TEST_P(MembershipContractTest, BarrierOfAGroupThatDoesNotJoin) {
  const Caller sync = NewSyncNamespace(2);
  EXPECT_THAT(
      sync.As({.rank = 0, .epoch = 3}).Barrier("b"),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("expected epoch 0")));
  Background first([&] { return sync.As(0).Barrier("b"); });
  AwaitWaitingCalls(sync, 1);

  EXPECT_OK(sync.As(1).Barrier("b"));

  EXPECT_OK(first.Result());
  EXPECT_THAT(sync.Join("a"), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_P(MembershipContractTest, BarriersOfDifferentNamesAreDifferent) {
  const Caller sync = NewSyncNamespace(2);
  const std::vector<Caller> workers = JoinMany(sync, 2);
  Background first([&] { return workers[0].Barrier("b"); });
  AwaitWaitingCalls(sync, 1);

  ExpectWaitNames("barrier \"c\": waiting for rank 0", workers[1],
                  [](const Caller& caller) { return caller.Barrier("c"); });

  EXPECT_OK(workers[1].Barrier("b"));
  EXPECT_OK(first.Result());
}

TEST_P(MembershipContractTest, AsyncNamespacesHaveWorkersToo) {
  const Caller async = NewNamespace("a", {});
  ASSERT_OK(async.Init("w", Full({2}, 0)));
  const std::vector<Caller> workers = JoinMany(async, 2);
  Background first([&] { return workers[0].Barrier("b"); });
  AwaitWaitingCalls(async, 1);

  EXPECT_OK(workers[1].Barrier("b"));

  EXPECT_OK(first.Result());
  EXPECT_OK(workers[0].Push("w", Full({2}, 1)));
  ASSERT_OK(workers[0].Leave());
  EXPECT_THAT(workers[0].Push("w", Full({2}, 1)),
              StatusIs(StatusCode::kFailedPrecondition));
}

TEST_P(MembershipContractTest, DescribeShowsTheWorkers) {
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const std::vector<Caller> workers = JoinMany(sync, 2);
  ASSERT_OK(workers[1].Push("w", Full({2}, 1), 3));
  ASSERT_OK(workers[0].Leave());

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, sync.Describe());

  ASSERT_EQ(status.workers().size(), 2u);
  EXPECT_FALSE(status.workers()[0].live());
  EXPECT_TRUE(status.workers()[0].left());
  EXPECT_FALSE(status.workers()[1].left());
  EXPECT_EQ(status.workers()[1].name(), "worker-1");
  EXPECT_TRUE(status.workers()[1].live());
  EXPECT_EQ(status.workers()[1].step(), 3u);
  EXPECT_GT(status.workers()[1].lease_remaining().seconds(), 60);
}

}  // namespace
}  // namespace tensorkv::testing
