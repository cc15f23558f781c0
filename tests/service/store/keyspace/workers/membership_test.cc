// Membership, losses and barriers, on a time that the test moves.

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/workers/workers_of_store.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace namespace_members_test {

using ::absl::StatusCode;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using MembershipTest = WorkersOfStoreTest;

TEST_F(MembershipTest, EveryCallOfAWorkerRenewsItsLease) {
  CreateSync(1);
  const Worker a = Join("a");

  for (Step step = 1; step < 10; ++step) {
    alarms_.Advance(kLease - absl::Milliseconds(1));
    ASSERT_OK(Push(a, step));
  }

  EXPECT_EQ(Describe().lease_expirations(), 0u);
  alarms_.Advance(kLease);
  EXPECT_EQ(Describe().lease_expirations(), 1u);
  EXPECT_THAT(Push(a, 10), StatusIs(StatusCode::kFailedPrecondition,
                                    HasSubstr("lost its lease")));
  EXPECT_EQ(Describe().contributions_fenced(), 1u);
}

TEST_F(MembershipTest, OneAlarmWatchesAllLeases) {
  CreateSync(3);
  for (const char* name : {"a", "b", "c"}) Join(name);

  EXPECT_EQ(alarms_.num_pending(), 1u);
}

class ElasticMembershipTest : public MembershipTest {
 protected:
  Worker JoinAs(const std::string& name, uint32_t rank) {
    return WorkerOf(
        testing::MakeNow(store_, testing::JoinOf("n", name, kLease, rank))
            ->worker());
  }
};

class ElasticGroupTest : public ElasticMembershipTest,
                         public ::testing::WithParamInterface<Mode> {};

TEST_P(ElasticGroupTest, WhoFormsItEndsWaitsForThoseWhoHaveNotCome) {
  Create({.mode = GetParam(), .num_workers = 2, .max_workers = 3});
  const Worker a = JoinAs("a", 0);
  ASSERT_OK(Push(a, 1));
  Inbox<PullReply> waiting;
  StartPull(a, waiting);
  ASSERT_TRUE(waiting.is_empty());

  JoinAs("c", 2);  // nobody has rank 1

  ASSERT_FALSE(waiting.is_empty());
  ASSERT_OK(waiting.Wait());
  EXPECT_EQ(First(*waiting.Wait()), 1);
}

INSTANTIATE_TEST_SUITE_P(, ElasticGroupTest,
                         ::testing::Values(Mode::kSync, Mode::kBounded));

TEST_F(ElasticMembershipTest, WhoIsLostBeforeItFormsMustPushNothingAgain) {
  Create({.mode = Mode::kSync, .num_workers = 2, .max_workers = 3});
  ASSERT_OK(Push(JoinAs("a", 0), 1));
  LoseAllBut({});
  JoinAs("b", 1);
  LoseAllBut({});  // a must push step 1 again
  ASSERT_OK(Push(JoinAs("c", 2), 2));

  const Worker d = JoinAs("d", 1);

  ASSERT_OK_AND_ASSIGN(const JoinReply a, TryJoin("a"));
  EXPECT_EQ(a.next_step(), 3u);
  ASSERT_OK(Push(d, 1));
  ASSERT_OK(Push(d, 2));
  EXPECT_EQ(Value(), 3);
}

TEST_F(MembershipTest, WhoLeavesMustPushNothingAgain) {
  Create({.mode = Mode::kSync, .num_workers = 3, .max_workers = 4});
  const Worker a = Join("a");
  const Worker b = Join("b");
  Join("c");
  ASSERT_OK(Push(a, 1));
  ASSERT_OK(Push(b, 1));
  LoseAllBut({a, b});

  ASSERT_OK(Leave(a));

  EXPECT_EQ(TryJoin("a")->next_step(), 2u);
  EXPECT_OK(Push(b, 1));
  EXPECT_EQ(Value(), 1);
}

// What each lost worker takes to find must not be a walk over all keys.
TEST_F(MembershipTest, LossOfManyIsOneLoss) {
  CreateSync(8);
  const Worker a = Join("a");
  for (const char* name : {"b", "c", "d", "e", "f", "g", "h"}) Join(name);
  ASSERT_OK(Push(a, 1));

  LoseAllBut({a});

  EXPECT_THAT(
      Push(a, 2),
      AllOf(StatusIs(StatusCode::kAborted,
                     HasSubstr("lost its lease of 2s and 3 more were "
                               "lost")),
            HasReason(
                Reason::kRoundFailed,
                {{"key", "w"}, {"step", "1"}, {"ranks", "1,2,3,4,5,6,7"}})));
  EXPECT_EQ(Describe().rounds_failed(), 1u);
}

TEST_F(MembershipTest, LeaseThatIsNoDurationIsInvalid) {
  CreateSync(1);
  JoinRequest join = testing::JoinOf("n", "a", kLease);
  for (const int64_t seconds : {INT64_MIN, int64_t{400'000'000'000}}) {
    join.mutable_lease()->set_seconds(seconds);
    EXPECT_THAT(testing::MakeNow(store_, join),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("lease: expected a duration")));
  }
}

TEST_F(MembershipTest, LiveWorkerReplacesItsOwnEpochAtOnce) {
  CreateSync(2);
  const Worker before = Join("a");
  const Worker b = Join("b");
  ASSERT_OK(Push(before, 1, 10));
  Inbox<PullReply> waiting;
  StartPull(before, waiting);

  JoinRequest join = testing::JoinOf("n", "a", kLease);
  join.set_replaces_epoch(before.epoch);
  ASSERT_OK_AND_ASSIGN(const JoinReply after, testing::MakeNow(store_, join));

  EXPECT_EQ(after.worker().rank(), before.rank);
  EXPECT_EQ(after.next_step(), 1u);
  for (const uint64_t not_its : {before.epoch, b.epoch}) {
    join.set_replaces_epoch(not_its);
    EXPECT_THAT(testing::MakeNow(store_, join),
                HasReason(Reason::kWorkerNameTaken, {{"rank", "0"}}));
  }
  EXPECT_THAT(waiting.Wait(), HasReason(Reason::kLeaseLost));
  EXPECT_THAT(KeepAlive(before), HasReason(Reason::kLeaseLost));
  EXPECT_TRUE(Push(WorkerOf(after.worker()), 1, 77)->results[0].repeated);
  ASSERT_OK(Push(b, 1, 1));
  EXPECT_EQ(Value(), 11);
  EXPECT_EQ(Describe().lease_expirations(), 0u);
}

TEST_F(MembershipTest, PullWaitsForWhatWasContributedBeforeIt) {
  CreateSync(2);
  ASSERT_OK(Push({.rank = 0}, 1));
  Inbox<PullReply> pull;
  StartPull({.rank = 0}, pull);
  ASSERT_OK(Push({.rank = 0}, 2));

  ASSERT_OK(Push({.rank = 1}, 1));

  ASSERT_FALSE(pull.is_empty());
  EXPECT_EQ(First(*pull.Wait()), 2);
}

TEST_F(MembershipTest, WaitNamesUpToEightRoundsAndHowManyMore) {
  CreateSync(2);
  PushRequest push = PushOf({.rank = 0}, 1, 1);
  PullRequest pull = {.name_space = "n", .worker = Worker{.rank = 0}};
  for (int i = 0; i < 10; ++i) {
    const std::string key = absl::StrCat("k", i);
    AddKey(key);
    push.entries.push_back({key, false, *Tensor::Filled(DType::kF32, {4}, 1)});
    pull.entries.push_back({key, 0});
  }
  Inbox<PushReply> pushed;
  store_.Push(std::move(push), {}, pushed.Callback());
  ASSERT_OK(pushed.Wait());
  Inbox<PullReply> waiting;
  store_.Pull(std::move(pull), {.timeout = absl::Seconds(1)},
              waiting.Callback());

  alarms_.Advance(absl::Seconds(1));

  EXPECT_THAT(
      waiting.Wait(),
      AllOf(
          StatusIs(StatusCode::kDeadlineExceeded,
                   AllOf(HasSubstr("waited 1s: round 1 of \"k0\": waiting for "
                                   "rank 1; round 1 of \"k1\""),
                         HasSubstr("\"k7\": waiting for rank 1; and 2 more"))),
          HasReason(Reason::kWaitEnded,
                    {{"key", "k0"}, {"step", "1"}, {"ranks", "1"}})));
}

TEST_F(MembershipTest, RoundThatHasTheContributionOfTheLostGoesOn) {
  CreateSync(3);
  const Worker a = Join("a");
  const Worker b = Join("b");
  const Worker c = Join("c");
  ASSERT_OK(Push(c, 1, 100));
  ASSERT_OK(Push(a, 1, 10));

  LoseAllBut({a, b});
  ASSERT_OK(Push(b, 1, 1));

  EXPECT_EQ(Value(), 111);
}

TEST_F(MembershipTest, WaitingCallsOfTheLostEnd) {
  CreateSync(2);
  const Worker a = Join("a");
  ASSERT_OK(Push(a, 1));
  Inbox<PullReply> waiting;
  StartPull(a, waiting);

  alarms_.Advance(kLease);

  EXPECT_THAT(waiting.Wait(), StatusIs(StatusCode::kFailedPrecondition,
                                       HasSubstr("worker 0: lost its lease")));
}

TEST_F(MembershipTest, WhoGaveUpIsNotAtTheBarrier) {
  CreateSync(2);
  const Worker a = Join("a");
  const Worker b = Join("b");
  Inbox<BarrierReply> gave_up;
  Inbox<BarrierReply> second;
  StartBarrier(a, gave_up, absl::Seconds(1));
  alarms_.Advance(absl::Seconds(1));

  StartBarrier(b, second);
  EXPECT_TRUE(second.is_empty());

  Inbox<BarrierReply> first;
  StartBarrier(a, first);
  EXPECT_OK(second.Wait());
}

TEST_F(MembershipTest, BarrierDoesWithoutWhoLeavesAGroupThatContinues) {
  CreateSync(2, OnWorkerLoss::kContinue);
  const Worker a = Join("a");
  const Worker b = Join("b");
  Inbox<BarrierReply> first;
  StartBarrier(a, first);

  ASSERT_OK(Leave(b));

  EXPECT_OK(first.Wait());
}

TEST_F(MembershipTest, RoundThatClosesAtTheEndIsApplied) {
  Create({.mode = Mode::kSync,
          .num_workers = 2,
          .quorum = 1,
          .quorum_grace = absl::Seconds(1)});
  ASSERT_OK(Push({.rank = 0}, 1, 10));
  backend_.Hold();
  store_.CancelWaits();

  alarms_.Advance(absl::Seconds(1));

  backend_.WaitUntilHeld();
  backend_.Release();
}

TEST_F(MembershipTest, RoundBelowItsQuorumFailsWhenItsTimeIsOver) {
  Create({.mode = Mode::kSync,
          .num_workers = 3,
          .quorum = 2,
          .quorum_grace = absl::Seconds(1),
          .round_timeout = absl::Seconds(5)});
  ASSERT_OK(Push({.rank = 0}, 1));
  Inbox<PullReply> waiting;
  StartPull({.rank = 0}, waiting);

  alarms_.Advance(absl::Seconds(4));
  EXPECT_TRUE(waiting.is_empty());
  alarms_.Advance(absl::Seconds(1));

  EXPECT_THAT(waiting.Wait(), HasReason(Reason::kRoundFailed));
  EXPECT_THAT(Push({.rank = 0}, 2), HasReason(Reason::kRoundFailed));
  EXPECT_EQ(Describe().rounds_open(), 0u);
  ASSERT_OK(Push({.rank = 0}, 1));
  alarms_.Advance(absl::Seconds(4));
  ASSERT_OK(Push({.rank = 1}, 1));
  EXPECT_EQ(Value(), 2);
  alarms_.Advance(absl::Seconds(5));
  EXPECT_EQ(Describe().rounds_failed(), 1u);
}

TEST_F(MembershipTest, TimeOfOpenRoundsBeginsWhenItIsSet) {
  CreateSync(2);
  ASSERT_OK(Push({.rank = 0}, 1));
  alarms_.Advance(absl::Seconds(9));
  const auto set = [this](absl::Duration time) {
    NamespaceConfig config;
    config.round_timeout = time;
    ASSERT_OK(testing::MakeNow(
        store_, testing::UpdateOf("n", config, {"round_timeout"})));
  };

  set(absl::Seconds(1));
  set(absl::Seconds(3));
  alarms_.Advance(absl::Seconds(2));
  EXPECT_EQ(Describe().rounds_open(), 1u);
  alarms_.Advance(absl::Seconds(1));
  EXPECT_EQ(Describe().rounds_open(), 0u);

  ASSERT_OK(Push({.rank = 0}, 1));
  set(absl::ZeroDuration());
  alarms_.Advance(absl::Seconds(9));
  EXPECT_EQ(Describe().rounds_open(), 1u);
}

TEST_F(MembershipTest, RoundOfSkipsThatClosesDuringAnAccessIsApplied) {
  CreateSync(2);
  PullRequest rows = {.name_space = "n"};
  const Tensor ids = *Tensor::Filled(DType::kI64, {1}, 3);
  rows.entries.push_back({"w", 0, *RowIds::Create(ids)});
  Inbox<PullReply> read;
  backend_.Hold();
  std::thread reader([&] { store_.Pull(rows, {}, read.Callback()); });
  backend_.WaitUntilHeld();
  for (const uint32_t rank : {0, 1}) {
    PushRequest skip = PushOf({.rank = rank}, 1, 0);
    skip.entries[0] = {.key = "w", .skip = true};
    Inbox<PushReply> skipped;
    store_.Push(std::move(skip), {}, skipped.Callback());
    EXPECT_OK(skipped.Wait());
  }
  Inbox<PullReply> waiting;
  StartPull({.rank = 0}, waiting);
  EXPECT_TRUE(waiting.is_empty());

  backend_.Release();
  reader.join();

  ASSERT_FALSE(waiting.is_empty());
  EXPECT_EQ(First(*waiting.Wait()), 0);
}

TEST_F(MembershipTest, GraceTimesOfClosedRoundsAreForgotten) {
  Create({.mode = Mode::kSync,
          .num_workers = 2,
          .quorum = 1,
          .quorum_grace = absl::Hours(1)});

  for (Step step = 1; step <= 1000; ++step) {
    ASSERT_OK(Push({.rank = 0}, step));
    ASSERT_OK(Push({.rank = 1}, step));
  }

  EXPECT_LE(alarms_.num_pending(), 100u);
}

}  // namespace namespace_members_test
}  // namespace tensorkv
