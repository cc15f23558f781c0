#include "service/store/keyspace/rounds/step_records.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "tests/service/store/keyspace/rounds/contributions.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::GroupOf;
using ::tensorkv::testing::Of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;

using LateFate = StepRecords::LateFate;

// Three workers, of which the last two have names, and a budget.
class StepRecordsTest : public ::testing::Test {
 protected:
  explicit StepRecordsTest(uint64_t budget_bytes = 64 << 20)
      : budget_(MakeRefCounted<ByteBudget>("test", budget_bytes)),
        account_(MakeRefCounted<BudgetAccount>(budget_)) {
    Join("b", 1);
    Join("c", 2);
    records_.Begin(account_, &group_, /*has_weights=*/true);
  }

  void Join(const std::string& name, uint32_t rank) {
    EXPECT_OK(group_.Join(name, absl::Hours(1), ++epoch_, 0, 0,
                          absl::ZeroDuration(), rank));
  }
  // Has a round close with contributions of these ranks, without the others.
  StepRecords::ListNumber Close(Step step, const std::string& key,
                                const std::vector<uint32_t>& ranks,
                                double weight = 1) {
    RoundContributions& round = records_.StartRound();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if (std::count(ranks.begin(), ranks.end(), rank) == 0) {
        round.missing.push_back(rank);
      } else {
        round.taken.push_back({.rank = rank, .weight = weight});
      }
    }
    return records_.RoundClosed(step, key);
  }
  v1::StepRecord Told(Step step) const {
    const auto record = records_.Newest(step, step);
    return record ? ToProto(record->record, true) : v1::StepRecord();
  }

  uint64_t epoch_ = 0;
  WorkerGroup group_{GroupOf(3)};
  const RefPtr<ByteBudget> budget_;
  const RefPtr<BudgetAccount> account_;
  StepRecords records_;
};

// Returns the ranks of a list.
std::vector<uint32_t> RanksIn(const v1::StepContributors& list) {
  std::vector<uint32_t> ranks;
  for (const auto& each : list.contributions()) ranks.push_back(each.rank());
  return ranks;
}

TEST_F(StepRecordsTest, KeysWithTheSameContributorsShareOneList) {
  for (int i = 0; i < 100; ++i) Close(7, absl::StrCat("k", i), {0, 1, 2});
  const uint64_t used = account_->used_bytes();
  for (int i = 0; i < 100; ++i) Close(7, absl::StrCat("l", i), {0, 1, 2});

  EXPECT_EQ(account_->used_bytes(), used);
  const v1::StepRecord told = Told(7);
  EXPECT_EQ(told.rounds_closed(), 200u);
  ASSERT_THAT(told.contributors(), SizeIs(1));
  EXPECT_THAT(RanksIn(told.contributors(0)), ElementsAre(0, 1, 2));
  EXPECT_EQ(told.contributors(0).num_keys(), 200u);
  EXPECT_THAT(told.contributors(0).keys(), IsEmpty());
  EXPECT_EQ(told.contributors(0).contributions(2).weight(), 1);
}

TEST_F(StepRecordsTest, StepsWithTheSameContributorsShareOneList) {
  Close(1, "k", {0, 1, 2});
  const uint64_t of_first = account_->used_bytes();
  Close(2, "k", {0, 1, 2});
  const uint64_t of_second = account_->used_bytes() - of_first;
  Close(3, "k", {0, 1, 2});

  EXPECT_LT(of_second, of_first);
  EXPECT_EQ(account_->used_bytes(), of_first + 2 * of_second);
}

TEST_F(StepRecordsTest, KeysThatDifferAreNamedUpToABound) {
  Close(1, "most", {0, 1, 2});
  for (int i = 0; i < 40; ++i) Close(1, absl::StrCat("k", 50 - i), {0, 2});

  const v1::StepRecord told = Told(1);
  ASSERT_THAT(told.contributors(), SizeIs(2));
  const v1::StepContributors& other = told.contributors(1);
  EXPECT_THAT(other.missing(), ElementsAre(1));
  EXPECT_EQ(other.num_keys(), 40u);
  EXPECT_THAT(other.keys(), SizeIs(StepRecords::kMaxKeys));
  EXPECT_TRUE(std::is_sorted(other.keys().begin(), other.keys().end()));
}

TEST_F(StepRecordsTest, RoundsBeyondTheLastListAreCounted) {
  for (int i = 0; i < 20; ++i) Close(1, absl::StrCat("k", i), {0}, i + 1);

  const v1::StepRecord told = Told(1);
  EXPECT_THAT(told.contributors(), SizeIs(StepRecords::kMaxLists));
  EXPECT_EQ(told.rounds_closed(), 20u);
  EXPECT_EQ(told.rounds_unlisted(), 4u);
}

TEST_F(StepRecordsTest, ARoundThatIsUndoneCountsAsFailedInstead) {
  const auto list = Close(1, "k", {0, 1, 2});
  Close(1, "l", {0, 1, 2});

  records_.RoundUndone(1, "k", list);
  records_.RoundFailed(1, "k",
                       std::make_shared<RoundFailure>(RoundFailure{"no"}), [] {
                         return std::vector<uint32_t>{0, 1, 2};
                       });

  const v1::StepRecord told = Told(1);
  EXPECT_EQ(told.rounds_closed(), 1u);
  EXPECT_EQ(told.contributors(0).num_keys(), 1u);
  EXPECT_EQ(told.rounds_failed(), 1u);
  ASSERT_THAT(told.failures(), SizeIs(1));
  EXPECT_EQ(told.failures(0).reason(), "no");
  EXPECT_THAT(told.failures(0).keys(), ElementsAre("k"));
  EXPECT_THAT(told.failures(0).came(), ElementsAre(0, 1, 2));
}

TEST_F(StepRecordsTest, FailuresOfOneCauseAreOne) {
  for (int i = 0; i < 30; ++i) {
    records_.RoundFailed(1, absl::StrCat("k", i),
                         std::make_shared<RoundFailure>(
                             RoundFailure{absl::StrCat("cause ", i % 20)}),
                         [] { return std::vector<uint32_t>{}; });
  }

  const v1::StepRecord told = Told(1);
  EXPECT_EQ(told.rounds_failed(), 30u);
  EXPECT_THAT(told.failures(), SizeIs(StepRecords::kMaxFailures));
  EXPECT_EQ(told.failures(0).num_rounds(), 2u);
  EXPECT_THAT(told.failures(0).keys(), ElementsAre("k0", "k20"));
  EXPECT_EQ(told.failures(15).num_rounds(), 1u);
  EXPECT_EQ(told.failures_unlisted(), 4u);
}

TEST_F(StepRecordsTest, WorkersHaveTheNamesOfTheirTime) {
  Close(1, "k", {1});
  records_.LateContribution(1, 2, LateFate::kCarried);
  group_.EndLease({.rank = 1, .epoch = 1}, absl::ZeroDuration());
  group_.Lose(1);
  Join("d", 1);
  Close(2, "k", {1});

  EXPECT_THAT(Told(1).workers(),
              ElementsAre(Property(&v1::StepWorker::name, "b"),
                          AllOf(Property(&v1::StepWorker::name, "c"),
                                Property(&v1::StepWorker::late_carried, 1u))));
  EXPECT_EQ(Told(2).workers(0).name(), "d");
}

TEST_F(StepRecordsTest, TheOldestIsForgottenFirst) {
  for (Step step = 1; step <= StepRecords::kMaxSteps + 2; ++step) {
    Close(step, "k", {0, 1, 2});
  }
  // What comes for a step that was forgotten makes no other record of it.
  records_.PushRefused(2, 1, Reason::kStepClosed);

  EXPECT_EQ(records_.num_records(), StepRecords::kMaxSteps);
  EXPECT_EQ(records_.last_forgotten(), 2u);
  EXPECT_FALSE(records_.Newest(0, 2));
  EXPECT_EQ(records_.Newest(0, 3)->record.step, 3u);
  EXPECT_EQ(records_.Newest(0, UINT64_MAX)->record.step,
            StepRecords::kMaxSteps + 2);
}

TEST_F(StepRecordsTest, ReadersKeepWhatTheyRead) {
  Close(1, "k", {0, 1, 2});
  StepRecordPtr read = records_.Newest(1, 1);
  Close(1, "l", {0, 1, 2});
  EXPECT_EQ(Told(1).rounds_closed(), 2u);
  for (Step step = 2; step <= 1000; ++step) {
    Close(step, "k", {0, 1, 2}, static_cast<double>(step));
  }

  EXPECT_FALSE(records_.Newest(1, 1));
  const v1::StepRecord told = ToProto(read->record, true);
  EXPECT_EQ(told.rounds_closed(), 1u);
  EXPECT_THAT(RanksIn(told.contributors(0)), ElementsAre(0, 1, 2));
  // The list is given back with the last who has it.
  const uint64_t used = account_->used_bytes();
  read = nullptr;
  EXPECT_LT(account_->used_bytes(), used);
}

TEST_F(StepRecordsTest, TheNextRunBeginsItsStepsAgain) {
  for (Step step = 1; step <= 200; ++step) Close(step, "k", {0, 1, 2});
  EXPECT_GT(records_.last_forgotten(), 0u);
  records_.AddKey();
  records_.RemoveKey();
  EXPECT_EQ(Told(200).rounds_closed(), 1u);

  Close(1, "k", {0, 1, 2});

  EXPECT_EQ(records_.num_records(), 1u);
  EXPECT_EQ(Told(1).rounds_closed(), 1u);
  EXPECT_EQ(records_.last_forgotten(), 0u);
}

TEST_F(StepRecordsTest, ARunThatGoesOnKeepsItsRecords) {
  Close(1, "k", {0, 1, 2});
  records_.AddKey();
  records_.RemoveKey();

  Close(2, "l", {0, 1, 2});
  Close(1, "m", {0, 1, 2});

  EXPECT_EQ(records_.num_records(), 2u);
  EXPECT_EQ(Told(1).rounds_closed(), 2u);
}

TEST_F(StepRecordsTest, AllMemoryIsGivenBackInTheEnd) {
  {
    StepRecords records;
    records.Begin(account_, &group_, /*has_weights=*/false);
    records.StartRound().taken.push_back({.rank = 1});
    records.RoundClosed(1, "k");
    records.LateContribution(1, 2, LateFate::kCarried);
    EXPECT_GT(account_->used_bytes(), 0u);
  }
  EXPECT_EQ(account_->used_bytes(), 0u);
}

TEST_F(StepRecordsTest, RefusalsForOtherReasonsAreNotRecorded) {
  records_.PushRefused(1, 1, Reason::kStepGap);
  EXPECT_EQ(records_.num_records(), 0u);
  records_.PushRefused(1, 1, Reason::kContributionExists);
  EXPECT_EQ(Told(1).workers(0).duplicates_refused(), 1u);
}

TEST_F(StepRecordsTest, GuardedPushesAreCounted) {
  records_.PushGuarded(1, 2, {.num_clipped = 2, .greatest_norm = 5});
  records_.PushGuarded(1, 2, {.num_skipped = 1, .greatest_norm = 3});
  records_.PushGuarded(1, 2, {.is_refused = true});

  const v1::StepWorker worker = Told(1).workers(0);
  EXPECT_EQ(worker.guard_clipped(), 2u);
  EXPECT_EQ(worker.guard_skipped(), 1u);
  EXPECT_EQ(worker.guard_refused(), 1u);
  EXPECT_EQ(worker.greatest_norm(), 5);
}

// Its budget has no memory for long.
class LittleMemoryTest : public StepRecordsTest {
 protected:
  LittleMemoryTest() : StepRecordsTest(16 << 10) {}
};

TEST_F(LittleMemoryTest, RecordsTakeASixteenthAndGoOnWithTheNewest) {
  for (Step step = 1; step <= 50; ++step) {
    Close(step, "k", {0, 1, 2}, static_cast<double>(step));
    ASSERT_LE(account_->used_bytes(), 1u << 10);
  }
  EXPECT_EQ(Told(50).rounds_closed(), 1u);
  EXPECT_LT(records_.num_records(), 10u);
  EXPECT_EQ(records_.last_forgotten() + records_.num_records(), 50u);
}

TEST_F(LittleMemoryTest, WhatNoRecordHasAnyMoreIsGivenBack) {
  for (int i = 0; i < 3; ++i) Close(1, "k", {0, 1, 2});
  Reservation rest = *Reservation::Create(account_, 15 << 10);
  EXPECT_EQ(Close(2, "k", {0, 1, 2}), StepRecords::kUnrecorded);
  EXPECT_EQ(records_.num_records(), 0u);
  EXPECT_EQ(account_->used_bytes(), rest.bytes());
  rest.Clear();

  EXPECT_NE(Close(3, "k", {0, 1, 2}), StepRecords::kUnrecorded);
}

TEST_F(LittleMemoryTest, WithoutMemoryNothingIsRecorded) {
  ASSERT_OK_AND_ASSIGN(const Reservation rest,
                       Reservation::Create(account_, (16 << 10) - 100));
  EXPECT_EQ(Close(1, "k", {0, 1, 2}), StepRecords::kUnrecorded);
  records_.LateContribution(1, 0, LateFate::kCarried);

  EXPECT_EQ(records_.num_records(), 0u);
  EXPECT_EQ(records_.last_forgotten(), 1u);
}

// What rounds tell of themselves: the first two of three are a quorum, and what
// is late is carried.
class RecordedRoundsTest : public StepRecordsTest {
 protected:
  RecordedRoundsTest() {
    shared_.records.Begin(account_, &group_, /*has_weights=*/false);
  }
  void Add(uint32_t rank, Step step) {
    rounds_.Add({.rank = rank, .identity = Contributor::kMember}, step, Of(1),
                {});
  }
  void Skip(uint32_t rank, Step step) {
    rounds_.Add({.rank = rank, .identity = Contributor::kMember}, step, {}, {});
  }
  void CloseByQuorum(Step step) {
    Add(0, step);
    rounds_.EndGrace(step, rounds_.IdOf(step));
    Add(1, step);
  }
  FailedRounds Fail(Step step) {
    return rounds_.FailFrom(
        step, std::make_shared<RoundFailure>(
                  RoundFailure{.text = "rank 2 was lost", .ranks = {2}}));
  }
  v1::StepRecord Told(Step step) const {
    const auto record = shared_.records.Newest(step, step);
    return record ? ToProto(record->record, false) : v1::StepRecord();
  }
  // Returns what is counted of rank 2.
  v1::StepWorker Counted(Step step) const {
    const v1::StepRecord told = Told(step);
    for (const v1::StepWorker& each : told.workers()) {
      if (each.rank() == 2) return each;
    }
    return {};
  }

  SharedRounds shared_;
  RoundPolicy policy_{.workers = &group_,
                      .shared = &shared_,
                      .max_open = 2,
                      .quorum = 2,
                      .carries = true};
  Rounds rounds_{&policy_, {}, "w"};
};

TEST_F(RecordedRoundsTest, TellWhoCameWhoSkippedAndWhoWasMissing) {
  Add(0, 1);
  rounds_.EndGrace(1, rounds_.IdOf(1));
  Skip(1, 1);

  const v1::StepContributors list = Told(1).contributors(0);
  EXPECT_THAT(RanksIn(list), ElementsAre(0, 1));
  EXPECT_FALSE(list.contributions(0).skipped());
  EXPECT_FALSE(list.contributions(0).has_weight());
  EXPECT_TRUE(list.contributions(1).skipped());
  EXPECT_THAT(list.missing(), ElementsAre(2));
}

TEST_F(RecordedRoundsTest, TellWhatIsCarriedAndWhoHasTakenIt) {
  CloseByQuorum(1);
  rounds_.RecordApplied(1, 2);
  Add(2, 1);
  EXPECT_EQ(Counted(1).late_carried(), 1u);
  EXPECT_EQ(Counted(1).late_taken(), 0u);

  CloseByQuorum(2);

  EXPECT_EQ(Counted(1).late_taken(), 1u);
  const v1::StepContributors list = Told(2).contributors(0);
  EXPECT_THAT(RanksIn(list), ElementsAre(0, 1, 2));
  EXPECT_EQ(list.contributions(2).carried_from(), 1u);
  EXPECT_THAT(list.missing(), ElementsAre(2));
}

TEST_F(RecordedRoundsTest, WhatAFailedRoundHasTakenIsDropped) {
  CloseByQuorum(1);
  rounds_.RecordApplied(1, 2);
  Add(2, 1);
  CloseByQuorum(2);

  Fail(2);

  EXPECT_EQ(Told(2).rounds_closed(), 0u);
  EXPECT_EQ(Told(2).rounds_failed(), 1u);
  EXPECT_THAT(Told(2).contributors(), IsEmpty());
  EXPECT_THAT(Told(2).failures(0).came(), ElementsAre(0, 1));
  EXPECT_EQ(Counted(1).late_taken(), 0u);
  EXPECT_EQ(Counted(1).late_dropped(), 1u);
}

TEST_F(RecordedRoundsTest, WhatNoRoundTakesAnyMoreIsDropped) {
  CloseByQuorum(1);
  rounds_.RecordApplied(1, 2);
  Add(2, 1);
  Add(0, 2);

  Fail(2);

  EXPECT_EQ(Counted(1).late_dropped(), 1u);
  EXPECT_EQ(Told(2).failures(0).reason(), "rank 2 was lost");
  EXPECT_THAT(Told(2).failures(0).came(), ElementsAre(0));
  EXPECT_THAT(Told(2).failures(0).ranks(), ElementsAre(2));
}

TEST_F(RecordedRoundsTest, RoundsOfAKeyThatGoesHaveFailed) {
  CloseByQuorum(1);
  Add(2, 1);
  Add(0, 2);

  rounds_.Abandon("its key was removed");

  EXPECT_EQ(Told(2).rounds_failed(), 1u);
  EXPECT_EQ(Told(2).failures(0).reason(), "its key was removed");
  EXPECT_EQ(Counted(1).late_dropped(), 1u);
  EXPECT_EQ(Told(1).rounds_closed(), 1u);
}

}  // namespace
}  // namespace tensorkv
