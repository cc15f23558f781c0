// What is told of the steps of a namespace.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace steps_contract {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kNumKeys = 10;

std::string KeyOf(int i) { return absl::StrCat("k", i); }

// A namespace with kNumKeys keys, and three workers that have joined.
struct Group {
  explicit Group(const Caller& caller) : sync(caller) {
    std::vector<InitEntry> entries;
    for (int i = 0; i < kNumKeys; ++i) {
      entries.push_back({.key = KeyOf(i), .tensor = Full({2}, 0)});
    }
    EXPECT_OK(sync.InitMany(std::move(entries)));
    for (const char* name : {"a", "b", "c"}) {
      workers.push_back(sync.Join(name).value());
    }
  }

  // Has a worker push all keys, and skip the one of that number.
  void Push(size_t rank, Step step, int skipped = -1, double weight = 1) const {
    std::vector<PushEntry> entries;
    for (int i = 0; i < kNumKeys; ++i) {
      entries.push_back({.key = KeyOf(i),
                         .skip = i == skipped,
                         .tensor = i == skipped ? Tensor() : Full({2}, 1),
                         .weight = weight});
    }
    EXPECT_OK(workers[rank].PushMany(std::move(entries), step));
  }
  void PushAll(Step step) const {
    for (size_t rank = 0; rank < workers.size(); ++rank) Push(rank, step);
  }

  // Has two workers push, and waits until their quorum has closed the step.
  void CloseBy(size_t a, size_t b, Step step) const {
    Push(a, step);
    Push(b, step);
    std::vector<PullEntry> entries;
    for (int i = 0; i < kNumKeys; ++i) entries.push_back({.key = KeyOf(i)});
    EXPECT_OK(workers[b].PullMany(std::move(entries)));
  }

  absl::StatusOr<DescribeStepsReply> Ask(
      DescribeStepsRequest request = {}) const {
    return sync.Call(std::move(request));
  }
  v1::StepRecord Told(Step step) const {
    DescribeStepsRequest request;
    request.set_first_step(step);
    request.set_last_step(step);
    const auto reply = Ask(std::move(request));
    EXPECT_OK(reply);
    return reply.ok() && reply->steps_size() == 1 ? reply->steps(0)
                                                  : v1::StepRecord();
  }
  // Returns what is told of a worker.
  v1::StepWorker Counted(uint32_t rank, Step step) const {
    const v1::StepRecord told = Told(step);
    for (const v1::StepWorker& each : told.workers()) {
      if (each.rank() == rank) return each;
    }
    return {};
  }

  Caller sync;
  std::vector<Caller> workers;
};

NamespaceConfig OfThree() { return {.mode = Mode::kSync, .num_workers = 3}; }

NamespaceConfig Carrying() {
  NamespaceConfig config = OfThree();
  config.quorum = 2;
  config.late = Late::kCarry;
  return config;
}

std::vector<uint32_t> RanksIn(const v1::StepContributors& list) {
  std::vector<uint32_t> ranks;
  for (const auto& each : list.contributions()) ranks.push_back(each.rank());
  return ranks;
}

// Returns how many keys have lists of which that is true.
template <typename Condition>
uint64_t NumKeysWhere(const v1::StepRecord& record, Condition condition) {
  uint64_t num_keys = 0;
  for (const v1::StepContributors& list : record.contributors()) {
    if (condition(list)) num_keys += list.num_keys();
  }
  return num_keys;
}

TEST_P(SyncContractTest, StepsTellWhoContributed) {
  const Group group(NewNamespace("steps", OfThree()));
  group.PushAll(1);

  const v1::StepRecord told = group.Told(1);
  EXPECT_EQ(told.rounds_closed(), kNumKeys);
  EXPECT_EQ(told.rounds_failed(), 0u);
  EXPECT_TRUE(told.has_last_end_time());
  ASSERT_THAT(told.contributors(), SizeIs(1));
  const v1::StepContributors& list = told.contributors(0);
  EXPECT_EQ(list.num_keys(), kNumKeys);
  EXPECT_THAT(RanksIn(list), ElementsAre(0, 1, 2));
  EXPECT_FALSE(list.contributions(0).has_weight());
  ASSERT_THAT(told.workers(), SizeIs(3));
  EXPECT_EQ(told.workers(0).name(), "a");
  EXPECT_EQ(told.workers(2).name(), "c");
}

TEST_P(SyncContractTest, StepsTellWhoSkippedAKey) {
  const Group group(NewNamespace("steps", OfThree()));
  group.Push(0, 1);
  group.Push(1, 1, /*skipped=*/3);
  group.Push(2, 1);

  const v1::StepRecord told = group.Told(1);
  EXPECT_THAT(told.contributors(), SizeIs(2));
  EXPECT_EQ(told.rounds_closed(), kNumKeys);
  const auto lacks_b = [](const v1::StepContributors& list) {
    return list.contributions(1).skipped();
  };
  EXPECT_EQ(NumKeysWhere(told, lacks_b), 1u);
}

TEST_P(SyncContractTest, StepsTellWhatContributionsWeighed) {
  NamespaceConfig config = OfThree();
  config.aggregation = Aggregation::kMean;
  const Group group(NewNamespace("steps", config));
  group.Push(0, 1);
  group.Push(1, 1, /*skipped=*/-1, /*weight=*/2.5);
  group.Push(2, 1, /*skipped=*/-1, /*weight=*/0);

  const v1::StepContributors list = group.Told(1).contributors(0);
  EXPECT_EQ(list.contributions(0).weight(), 1);
  EXPECT_EQ(list.contributions(1).weight(), 2.5);
  EXPECT_TRUE(list.contributions(2).skipped());
}

TEST_P(SyncContractTest, StepsTellWhatWasLateAndWhatHasTakenIt) {
  const Group group(NewNamespace("steps", Carrying()));
  group.CloseBy(0, 1, 1);
  EXPECT_THAT(group.Told(1).contributors(0).missing(), ElementsAre(2));
  group.Push(2, 1);
  EXPECT_EQ(group.Counted(2, 1).late_carried(), kNumKeys);
  EXPECT_EQ(group.Counted(2, 1).late_taken(), 0u);

  group.CloseBy(0, 2, 2);

  EXPECT_EQ(group.Counted(2, 1).late_taken(), kNumKeys);
  const v1::StepRecord told = group.Told(2);
  ASSERT_THAT(told.contributors(), SizeIs(1));
  const v1::StepContributors& list = told.contributors(0);
  EXPECT_THAT(RanksIn(list), ElementsAre(0, 2, 2));
  EXPECT_EQ(list.contributions(1).carried_from(), 0u);
  EXPECT_EQ(list.contributions(2).carried_from(), 1u);
  EXPECT_THAT(list.missing(), ElementsAre(1));
}

TEST_P(SyncContractTest, StepsTellWhatWasRefusedAsLate) {
  NamespaceConfig config = Carrying();
  config.late = Late::kRefuse;
  const Group group(NewNamespace("steps", config));
  group.CloseBy(0, 1, 1);

  EXPECT_THAT(group.workers[2].Push(KeyOf(0), Full({2}, 1), 1),
              HasReason(Reason::kStepClosed));

  EXPECT_EQ(group.Counted(2, 1).late_refused(), 1u);
  EXPECT_EQ(group.Counted(2, 1).late_carried(), 0u);
}

TEST_P(SyncContractTest, WhatIsCarriedToAKeyThatGoesIsDropped) {
  const Group group(NewNamespace("steps", Carrying()));
  group.CloseBy(0, 1, 1);
  group.Push(2, 1);
  ASSERT_OK(group.sync.Delete({KeyOf(4)}));

  EXPECT_EQ(group.Counted(2, 1).late_dropped(), 1u);
  EXPECT_EQ(group.Counted(2, 1).late_carried(), kNumKeys);
}

TEST_P(SyncContractTest, StepsTellWhichRoundsFailedAndWhy) {
  const Group group(NewNamespace("steps", OfThree()));
  group.PushAll(1);
  group.Push(0, 2);
  group.Push(1, 2);
  ASSERT_OK(group.workers[2].Fail());

  const v1::StepRecord told = group.Told(2);
  EXPECT_EQ(told.rounds_failed(), kNumKeys);
  EXPECT_EQ(told.rounds_closed(), 0u);
  ASSERT_THAT(told.failures(), SizeIs(1));
  const v1::StepFailure& failure = told.failures(0);
  EXPECT_THAT(failure.reason(), HasSubstr("rank 2 (\"c\")"));
  EXPECT_THAT(failure.ranks(), ElementsAre(2));
  EXPECT_THAT(failure.came(), ElementsAre(0, 1));
  EXPECT_EQ(failure.num_rounds(), kNumKeys);
  EXPECT_THAT(failure.keys(), SizeIs(kNumKeys));
}

TEST_P(SyncContractTest, StepsTellWhoHadComeWhenTheirTimeWasOver) {
  NamespaceConfig config = OfThree();
  config.round_timeout = absl::Milliseconds(50);
  const Group group(NewNamespace("steps", config));
  ASSERT_OK(group.workers[1].Push(KeyOf(0), Full({2}, 1), 1));

  ASSERT_TRUE(Eventually([&] { return group.Told(1).rounds_failed() > 0; }));
  const v1::StepFailure failure = group.Told(1).failures(0);
  EXPECT_THAT(failure.reason(), HasSubstr("round_timeout of 50ms"));
  EXPECT_THAT(failure.came(), ElementsAre(1));
  EXPECT_THAT(failure.ranks(), ElementsAre(0, 2));
}

TEST_P(SyncContractTest, StepsTellWhatTheGradientGuardDid) {
  NamespaceConfig config = OfThree();
  config.gradient_guard.max_norm = 5;
  const Group group(NewNamespace("steps", config));
  group.Push(0, 1);
  group.Push(1, 1);
  ASSERT_OK(group.workers[2].Push(KeyOf(0), Vector({6, 8}), 1));

  EXPECT_EQ(group.Counted(2, 1).guard_clipped(), 1u);
  EXPECT_EQ(group.Counted(2, 1).greatest_norm(), 10);
  EXPECT_EQ(group.Counted(0, 1).guard_clipped(), 0u);
  EXPECT_GT(group.Counted(0, 1).greatest_norm(), 1);
}

TEST_P(SyncContractTest, StepsAreToldInPagesTheNewestFirst) {
  const Group group(NewNamespace("steps", OfThree()));
  for (Step step = 1; step <= 7; ++step) group.PushAll(step);

  DescribeStepsRequest request;
  request.set_first_step(2);
  request.set_last_step(6);
  request.set_page_size(2);
  std::vector<Step> told;
  do {
    ASSERT_OK_AND_ASSIGN(const DescribeStepsReply page, group.Ask(request));
    ASSERT_LE(page.steps_size(), 2);
    for (const v1::StepRecord& each : page.steps()) {
      told.push_back(each.step());
      EXPECT_EQ(each.rounds_closed(), kNumKeys);
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(told, ElementsAre(6, 5, 4, 3, 2));

  ASSERT_OK_AND_ASSIGN(const DescribeStepsReply all, group.Ask());
  EXPECT_THAT(all.steps(), SizeIs(7));
  EXPECT_EQ(all.last_forgotten(), 0u);
}

TEST_P(SyncContractTest, StepsAreToldOfSyncNamespacesAlone) {
  EXPECT_THAT(store_.Call(DescribeStepsRequest()),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_.In("nowhere").Call(DescribeStepsRequest()),
              StatusIs(StatusCode::kNotFound));
  const Group group(NewNamespace("steps", OfThree()));
  EXPECT_THAT(group.Ask()->steps(), IsEmpty());
  DescribeStepsRequest request;
  request.set_first_step(3);
  request.set_last_step(2);
  EXPECT_THAT(group.Ask(request), StatusIs(StatusCode::kInvalidArgument));
  request.set_last_step(0);
  request.set_page_token("k");
  EXPECT_THAT(group.Ask(request), StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace steps_contract
}  // namespace tensorkv::testing
