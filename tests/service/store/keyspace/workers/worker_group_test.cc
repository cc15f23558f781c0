#include "service/store/keyspace/workers/worker_group.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kLease = absl::Seconds(10);

WorkerGroupOptions Fixed(uint32_t num_workers,
                         OnWorkerLoss on_loss = OnWorkerLoss::kFail) {
  return {.min_workers = num_workers,
          .max_workers = num_workers,
          .on_worker_loss = on_loss};
}

WorkerGroupOptions Elastic(uint32_t min_workers, uint32_t max_workers) {
  return {.min_workers = min_workers, .max_workers = max_workers};
}

// A group, the time, and epochs.
class Group : public WorkerGroup {
 public:
  using WorkerGroup::WorkerGroup;

  absl::StatusOr<Worker> Join(const std::string& name, Step reached = 0,
                              absl::Duration lease = kLease) {
    return WorkerGroup::Join(name, lease, ++epoch, /*replaces_epoch=*/0,
                             reached, now);
  }
  Worker MustJoin(const std::string& name, Step reached = 0) {
    return Join(name, reached).value();
  }
  absl::Status Check(const Worker& worker) const {
    return WorkerGroup::Check(worker, now);
  }
  void LoseExpired() {
    for (const uint32_t rank : Expired(now)) Lose(rank);
  }
  // The ranks that `step` needs.
  std::vector<uint32_t> NeededBy(Step step) const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < end_rank(); ++rank) {
      if (Needs(rank, step)) ranks.push_back(rank);
    }
    return ranks;
  }

  uint64_t epoch = 0;
  absl::Duration now;
};

TEST(WorkerGroupTest, PlaceNobodyHadGoesBeforeThatOfALostWorker) {
  Group group(Fixed(2));
  group.MustJoin("a");
  group.Lose(0);

  EXPECT_EQ(group.MustJoin("b").rank, 1u);
  EXPECT_EQ(group.MustJoin("c").rank, 0u);
}

TEST(WorkerGroupTest, LostWorkerIsFencedOff) {
  Group group(Fixed(1));
  const Worker a = group.MustJoin("a");
  group.now = absl::Seconds(10);
  group.LoseExpired();
  group.now = absl::Milliseconds(13100);

  EXPECT_THAT(group.Check(a), StatusIs(StatusCode::kFailedPrecondition,
                                       "worker 0: lost its lease 3.1s ago; "
                                       "join again"));
}

TEST(WorkerGroupTest, WhoWasLostKeepsItsPlaceAmongJoinsAndLeaves) {
  Group group(Fixed(2));
  group.MustJoin("a");
  const Worker b = group.MustJoin("b");
  group.Lose(0);
  group.Leave(b);
  EXPECT_TRUE(group.WasLost(0, "a"));

  group.MustJoin("a");

  EXPECT_TRUE(group.HasLeftSince(1, 0));
  Group restored(Fixed(2));
  restored.Restore(group.Save(), /*max_closed=*/0, restored.now);
  restored.MustJoin("a");
  EXPECT_TRUE(restored.HasLeftSince(1, 0)) << "of a server that was restarted";
}

// One worker that ran ahead by mistake does not decide where others begin.
TEST(WorkerGroupTest, StepOfWhoHasGoneDoesNotCountForLong) {
  Group group(Fixed(2, OnWorkerLoss::kContinue));
  group.Reach(group.MustJoin("a"), 3);
  group.Reach(group.MustJoin("b"), 9);
  group.Close(2);

  group.Lose(1);
  group.LowerMaxStep(/*open=*/0);

  EXPECT_EQ(group.max_step(), 3u);
  group.LowerMaxStep(/*open=*/5);
  EXPECT_EQ(group.max_step(), 5u) << "what is open needs nobody else";
}

TEST(WorkerGroupTest, ElasticGroupWaitsForItsFirstWorkers) {
  Group group(Elastic(2, 4));

  group.MustJoin("a");
  EXPECT_THAT(group.NeededBy(1), ElementsAre(0, 1));
  group.MustJoin("b");
  EXPECT_THAT(group.NeededBy(1), ElementsAre(0, 1));

  group.Lose(0);
  EXPECT_THAT(group.NeededBy(1), ElementsAre(1));
}

TEST(WorkerGroupTest, WorkersOfAnElasticGroupMustJoin) {
  Group group(Elastic(1, 4));

  EXPECT_THAT(group.Check({.rank = 0}),
              StatusIs(StatusCode::kFailedPrecondition));
}

TEST(WorkerGroupTest, SlowestStepIsThatOfANeededWorker) {
  Group group(Fixed(3, OnWorkerLoss::kContinue));
  group.Reach(group.MustJoin("a"), 7);
  group.Reach(group.MustJoin("b"), 4);
  group.Reach(group.MustJoin("c"), 2);

  EXPECT_EQ(group.slowest_step(), 2u);
  EXPECT_THAT(group.NeededBelow(7), ElementsAre(1, 2));
  group.Lose(2);
  EXPECT_EQ(group.slowest_step(), 4u);
}

TEST(WorkerGroupTest, NobodyIsBehindWhoHasLeftAGroupThatIsWhole) {
  WorkerGroupOptions options = Fixed(2);
  options.awaits_left = true;
  Group group(options);
  group.Reach(group.MustJoin("a"), 5);

  group.Leave(group.MustJoin("b"));

  EXPECT_THAT(group.NeededBy(1), ElementsAre(0, 1));
  EXPECT_EQ(group.slowest_step(), 5u);
}

TEST(WorkerGroupTest, NamesWhatIsMissingAndWhy) {
  Group group(Fixed(4));
  group.MustJoin("a");
  group.MustJoin("b");
  group.now = absl::Seconds(10);
  group.LoseExpired();
  group.now = absl::Milliseconds(13100);
  group.MustJoin("a");

  EXPECT_EQ(group.Describe({0}, group.now), "rank 0");
  EXPECT_EQ(group.Describe({0, 1, 3}, group.now),
            "ranks 0, 1, 3 (rank 1 lost its lease 3.1s ago, rank 3 has not "
            "joined)");
  EXPECT_EQ(group.DescribeLoss(1), "rank 1 (\"b\") lost its lease of 10s");
}

TEST(WorkerGroupTest, ListTellsWhoIsLiveAndForHowLong) {
  Group group(Fixed(2));
  group.MustJoin("a");
  group.MustJoin("b");
  group.Lose(0);
  group.now = absl::Seconds(4);

  const std::vector<MemberStatus> statuses = group.List(group.now);

  EXPECT_FALSE(statuses[0].live);
  EXPECT_EQ(statuses[0].lease_remaining, absl::ZeroDuration());
  EXPECT_TRUE(statuses[1].live);
  EXPECT_EQ(statuses[1].lease_remaining, absl::Seconds(6));
}

TEST(WorkerGroupTest, ListTellsStepsOfThoseWhoHaveContributed) {
  for (const OnWorkerLoss on_loss :
       {OnWorkerLoss::kFail, OnWorkerLoss::kContinue}) {
    Group group(Fixed(2, on_loss));
    const auto step = [&group] { return group.List(group.now)[0].step; };
    group.Reach(group.MustJoin("a"), 5);
    group.Lose(0);
    EXPECT_EQ(step(), 5u);
    // It comes back.
    const Worker worker = group.MustJoin("a", group.max_step());
    EXPECT_EQ(step(), 5u);
    group.Leave(worker);
    EXPECT_EQ(step(), 5u);
    // Another one, be it of that name.
    const Worker other = group.MustJoin("a", group.max_step());
    EXPECT_EQ(step(), 0u);
    group.Reach(other, 6);
    EXPECT_EQ(step(), 6u);
  }
}

// Its push may end when another worker has its rank.
TEST(WorkerGroupTest, StepsOfAFormerWorkerAreNotThoseOfTheNext) {
  Group group(Fixed(1, OnWorkerLoss::kContinue));
  const Worker former = group.MustJoin("a");
  group.Leave(former);
  const Worker present = group.MustJoin("b");

  group.Reach(former, 7);
  EXPECT_EQ(group.step_of(present.rank), 0u);

  group.Reach(present, 2);
  EXPECT_EQ(group.step_of(present.rank), 2u);
}

TEST(WorkerGroupTest, GroupThatGoesBackAwaitsItsMembersAnew) {
  Group group(Fixed(2));
  const Worker first = group.MustJoin("first");
  const Worker second = group.MustJoin("second");
  group.Reach(first, 5);
  const std::vector<WorkerSnapshot> saved = group.Save();
  group.Reach(first, 9);
  group.Reach(second, 8);

  group.GoBack(saved, group.now);

  EXPECT_THAT(group.Check(first), HasReason(Reason::kLeaseLost));
  EXPECT_THAT(group.NeededBy(9), ElementsAre(0, 1));
  EXPECT_EQ(group.step_of(0), 5u);
  EXPECT_EQ(group.step_of(1), 0u);
  // What was reached is no gap for others.
  EXPECT_EQ(group.max_step(), 9u);
  EXPECT_EQ(group.MustJoin("second").rank, 1u);
}

TEST(WorkerGroupTest, RestoredGroupKnowsWhatWorkersOfOtherServersLack) {
  WorkerGroupOptions options = Fixed(2);
  options.is_local = [](uint32_t rank) { return rank == 0; };
  Group saved(options);
  saved.MustJoin("here");
  saved.Leave(saved.MustJoin("elsewhere"), /*step=*/5);

  Group group(options);
  group.Restore(saved.Save(), saved.max_closed(), group.now);

  EXPECT_FALSE(group.IsLackingElsewhere(1, 5));
  EXPECT_TRUE(group.IsLackingElsewhere(1, 6));
  EXPECT_TRUE(group.HasLeftSince(1, 0));
}

// A server may have the steps of a worker that has not joined there yet.
TEST(WorkerGroupTest, GroupThatKnowsSomeOfItsMembersIsStillJoined) {
  Group elsewhere(Fixed(2));
  elsewhere.MustJoin("a");
  elsewhere.Reach(elsewhere.MustJoin("b"), 3);
  Group saved(Fixed(2));
  saved.MustJoin("a");
  saved.AdoptSteps(elsewhere.Save(), /*max_closed=*/0, /*has_keys=*/false);

  Group group(Fixed(2));
  group.Restore(saved.Save(), /*max_closed=*/0, group.now);

  EXPECT_OK(group.Join("b"));
}

// A move may bring what another server knows, which is less.
TEST(WorkerGroupTest, RestoreBringsNoEarlierEpochBack) {
  Group saved(Fixed(2));
  const Worker former = saved.MustJoin("a");
  Group group(Fixed(2));
  group.epoch = former.epoch;
  const Worker later = group.MustJoin("a");
  const Worker other = group.MustJoin("b");
  group.GoBack({}, group.now);

  group.Restore(saved.Save(), /*max_closed=*/0, group.now);

  EXPECT_EQ(group.max_epoch(), other.epoch);
  EXPECT_THAT(group.EpochBefore("a", later), HasReason(Reason::kLeaseLost));
}

TEST(WorkerGroupTest, WhoHasLeftIsNotDoneOnceItsContributionsAreLost) {
  Group group(Fixed(3));
  const std::vector<Worker> workers = {group.MustJoin("a"), group.MustJoin("b"),
                                       group.MustJoin("c")};
  group.Reach(workers[0], 1);
  group.Reach(workers[1], 2);
  for (const Worker& worker : workers) group.Leave(worker);

  group.RepeatFrom(2);

  EXPECT_TRUE(group.HasLeft(0));
  EXPECT_FALSE(group.HasLeft(1));
  EXPECT_EQ(group.step_of(1), 2u);
  EXPECT_TRUE(group.HasLeft(2));
}

TEST(WorkerGroupTest,
     StepThatARestoreHasLostIsRepeatedUntilALaterOneIsReached) {
  Group group(Fixed(2));
  const Worker worker = group.MustJoin("a");
  group.Reach(worker, 1);
  group.RepeatFrom(1);
  group.Reach(worker, 1);
  Group restored(Fixed(2));
  restored.Restore(group.Save(), /*max_closed=*/0, restored.now);
  Group had_none(Fixed(2));
  had_none.AdoptSteps(group.Save(), /*max_closed=*/0, /*has_keys=*/false);
  Group went_back(Fixed(2));
  went_back.Reach(went_back.MustJoin("a"), 5);
  went_back.GoBack(group.Save(), went_back.now);

  for (const Group* const each : {&group, &restored, &had_none, &went_back}) {
    EXPECT_TRUE(each->RepeatsStep(0));
    EXPECT_FALSE(each->RepeatsStep(1));
  }
  group.Reach(worker, 2);
  EXPECT_FALSE(group.RepeatsStep(0));
}

TEST(WorkerGroupTest, GroupThatIsToContinueAwaitsNobodyWhoIsGone) {
  WorkerGroupOptions options = Fixed(3);
  options.awaits_left = true;
  Group group(options);
  group.MustJoin("a");
  group.MustJoin("b");
  const Worker c = group.MustJoin("c");
  group.Lose(1);
  group.Leave(c);
  EXPECT_THAT(group.NeededBy(1), ElementsAre(0, 1, 2));

  EXPECT_THAT(group.SetOnWorkerLoss(Fixed(3, OnWorkerLoss::kContinue)),
              ElementsAre(1, 2));

  EXPECT_THAT(group.NeededBy(1), ElementsAre(0));
  EXPECT_FALSE(group.LacksThoseWhoLeft());
}

TEST(WorkerGroupTest, GroupThatIsToContinueAwaitsNobodyWhoHasNotComeBack) {
  Group saved(Fixed(2));
  saved.Reach(saved.MustJoin("a"), 3);
  saved.Reach(saved.MustJoin("b"), 3);
  Group group(Fixed(2));
  group.Restore(saved.Save(), /*max_closed=*/3, absl::ZeroDuration());
  group.MustJoin("a");
  EXPECT_THAT(group.NeededBy(4), ElementsAre(0, 1));

  EXPECT_THAT(group.SetOnWorkerLoss(Fixed(2, OnWorkerLoss::kContinue)),
              ElementsAre(1));

  EXPECT_THAT(group.NeededBy(4), ElementsAre(0));
  group.MustJoin("b", group.max_step());
  EXPECT_EQ(group.first_step_of(1), 4u);
}

TEST(WorkerGroupTest, GroupThatIsToFailNeedsTheLostAboveWhatWasReached) {
  Group group(Fixed(2, OnWorkerLoss::kContinue));
  group.Reach(group.MustJoin("a"), 5);
  group.MustJoin("b");
  group.Lose(1);

  EXPECT_THAT(group.SetOnWorkerLoss(Fixed(2)), IsEmpty());

  EXPECT_THAT(group.NeededBy(5), ElementsAre(0));
  EXPECT_THAT(group.NeededBy(6), ElementsAre(0, 1));
  group.MustJoin("b", group.max_step());
  EXPECT_EQ(group.first_step_of(1), 6u);
  EXPECT_EQ(group.step_of(1), 5u);
}

// The rounds that it was ahead with have failed, and need not be made again.
TEST(WorkerGroupTest, GroupThatIsToFailAwaitsTheLostWhereTheOthersAre) {
  Group group(Fixed(2, OnWorkerLoss::kContinue));
  group.MustJoin("a");
  group.Reach(group.MustJoin("b"), 2);
  group.Lose(1);
  group.LowerMaxStep(/*open=*/0);

  group.SetOnWorkerLoss(Fixed(2));

  group.MustJoin("b", group.max_step());
  EXPECT_EQ(group.first_step_of(1), 1u);
  EXPECT_EQ(group.step_of(1), 0u);
}

TEST(WorkerGroupTest, StepsThatComeWithKeysAreOfTheWorkersThatHaveMadeThem) {
  Group from(Fixed(2));
  from.Reach(from.MustJoin("a"), 3);
  from.Reach(from.MustJoin("b"), 3);
  Group to(Fixed(2));
  to.MustJoin("a");
  to.MustJoin("other");

  to.AdoptSteps(from.Save(), /*max_closed=*/2, /*has_keys=*/false);

  const std::vector<MemberStatus> workers = to.List(to.now);
  EXPECT_EQ(workers[0].step, 3u);
  EXPECT_EQ(workers[1].step, 0u);
}

}  // namespace
}  // namespace tensorkv
