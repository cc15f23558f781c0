#include "client/cluster/merged_steps.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/step_token.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::StepRecord Record(const std::string& text) {
  v1::StepRecord record;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &record));
  return record;
}

DescribeStepsReply Page(const std::vector<v1::StepRecord>& records) {
  DescribeStepsReply page;
  for (const v1::StepRecord& each : records) *page.add_steps() = each;
  return page;
}

v1::StepRecord OnlyOf(const std::vector<v1::StepRecord>& records,
                      bool is_mirrored = false) {
  std::vector<DescribeStepsReply> pages;
  for (const v1::StepRecord& each : records) pages.push_back(Page({each}));
  const DescribeStepsReply merged = MergeSteps(pages, 0, is_mirrored);
  EXPECT_THAT(merged.steps(), SizeIs(1));
  return merged.steps(0);
}

std::vector<uint32_t> RanksIn(const v1::StepContributors& list) {
  std::vector<uint32_t> ranks;
  for (const auto& each : list.contributions()) ranks.push_back(each.rank());
  return ranks;
}

TEST(MergeStepsTest, AddsCountsAndListsThatAreTheSame) {
  const std::string counts =
      "step: 7 rounds_closed: 3 rounds_failed: 1 rounds_unlisted: 1 "
      "contributors { contributions { rank: 0 } contributions { rank: 1 } "
      "num_keys: 2 } "
      "workers { rank: 1 late_carried: 1 greatest_norm: 2 } ";

  const v1::StepRecord merged =
      OnlyOf({Record(counts + "last_end_time { seconds: 5 }"),
              Record(counts + "last_end_time { seconds: 9 } workers { rank: 0 "
                              "name: 'a' late_refused: 1 } workers { rank: 2 "
                              "greatest_norm: 4 }")});

  EXPECT_EQ(merged.rounds_closed(), 6u);
  EXPECT_EQ(merged.rounds_failed(), 2u);
  EXPECT_EQ(merged.rounds_unlisted(), 2u);
  EXPECT_EQ(merged.last_end_time().seconds(), 9);
  ASSERT_THAT(merged.contributors(), SizeIs(1));
  EXPECT_EQ(merged.contributors(0).num_keys(), 4u);
  ASSERT_THAT(merged.workers(), SizeIs(3));
  EXPECT_EQ(merged.workers(0).name(), "a");
  EXPECT_EQ(merged.workers(1).late_carried(), 2u);
  EXPECT_EQ(merged.workers(1).greatest_norm(), 2);
}

TEST(MergeStepsTest, ListsThatDifferInAnythingStay) {
  for (const char* other :
       {"contributions { rank: 1 }", "contributions { skipped: true }",
        "contributions { weight: 1 }", "contributions { carried_from: 1 }",
        "contributions { } missing: 3"}) {
    const v1::StepRecord merged = OnlyOf(
        {Record("step: 1 contributors { contributions { } num_keys: 1 }"),
         Record(absl::StrCat("step: 1 contributors { ", other,
                             " num_keys: 1 }"))});
    EXPECT_THAT(merged.contributors(), SizeIs(2)) << other;
  }
}

TEST(MergeStepsTest, FailuresOfOneCauseBecomeOne) {
  const v1::StepRecord merged =
      OnlyOf({Record("step: 1 failures { reason: 'r' num_rounds: 1 came: 0 "
                     "keys: 'b' }"),
              Record("step: 1 failures { reason: 'r' num_rounds: 2 came: 1 "
                     "keys: 'a' } failures { reason: 's' num_rounds: 1 }")});

  ASSERT_THAT(merged.failures(), SizeIs(2));
  EXPECT_EQ(merged.failures(0).num_rounds(), 3u);
  EXPECT_THAT(merged.failures(0).came(), ElementsAre(0, 1));
  EXPECT_THAT(merged.failures(0).keys(), ElementsAre("a", "b"));
}

TEST(MergeStepsTest, JoinsTheWorkersOfMirrors) {
  const v1::StepRecord merged = OnlyOf(
      {Record("step: 1 rounds_closed: 5 contributors { contributions { } "
              "contributions { rank: 2 } num_keys: 5 }"),
       Record("step: 1 rounds_closed: 4 contributors { contributions { "
              "rank: 1 } num_keys: 4 }")},
      /*is_mirrored=*/true);

  EXPECT_EQ(merged.rounds_closed(), 5u);
  ASSERT_THAT(merged.contributors(), SizeIs(1));
  EXPECT_THAT(RanksIn(merged.contributors(0)), ElementsAre(0, 1, 2));
  EXPECT_EQ(merged.contributors(0).num_keys(), 5u);
}

// Each server of a mirrored namespace has all rounds, of its own workers.
TEST(MergeStepsTest, CountsRoundsOfMirrorsOnce) {
  const v1::StepRecord merged = OnlyOf(
      {Record("step: 1 rounds_closed: 10 rounds_failed: 1 contributors { "
              "contributions { rank: 1 skipped: true } num_keys: 1 } "
              "contributors { contributions { rank: 1 } num_keys: 9 } "
              "failures { reason: 'r' num_rounds: 1 came: 1 }"),
       Record("step: 1 rounds_closed: 10 rounds_failed: 1 contributors { "
              "contributions { rank: 0 } num_keys: 10 } "
              "failures { reason: 'r' num_rounds: 1 came: 0 }")},
      /*is_mirrored=*/true);

  EXPECT_EQ(merged.rounds_closed(), 10u);
  // Nobody knows which keys of one server are which of another.
  ASSERT_THAT(merged.contributors(), SizeIs(3));
  EXPECT_THAT(RanksIn(merged.contributors(0)), ElementsAre(1));
  EXPECT_EQ(merged.contributors(0).num_keys(), 1u);
  EXPECT_EQ(merged.contributors(2).num_keys(), 10u);
  ASSERT_THAT(merged.failures(), SizeIs(1));
  EXPECT_EQ(merged.failures(0).num_rounds(), 1u);
  EXPECT_THAT(merged.failures(0).came(), ElementsAre(0, 1));
}

// What a server with these steps answers.
DescribeStepsReply PageOf(const std::vector<Step>& steps,
                          const DescribeStepsRequest& request, size_t size) {
  DescribeStepsReply page;
  const Step above = request.page_token().empty()
                         ? UINT64_MAX
                         : *StepAbovePage(request.page_token());
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step >= above) continue;
    if (static_cast<size_t>(page.steps_size()) == size) {
      page.set_next_page_token(
          TokenBelowStep(page.steps(page.steps_size() - 1).step()));
      break;
    }
    v1::StepRecord& record = *page.add_steps();
    record.set_step(*step);
    record.set_rounds_closed(1);
  }
  return page;
}

// Pages through servers with random steps, whose pages end where they like.
TEST(MergeStepsTest, PagesHaveEachStepOfEachServerOnce) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<Step>> servers(1 + random() % 4);
    std::map<Step, uint64_t> expected;
    for (auto& steps : servers) {
      for (Step step = 1; step < 40; ++step) {
        if (random() % 2 == 0) continue;
        steps.push_back(step);
        ++expected[step];
      }
    }
    std::map<Step, uint64_t> told;
    DescribeStepsRequest request;
    request.set_page_size(1 + random() % 7);
    for (;;) {
      std::vector<DescribeStepsReply> pages;
      for (const auto& steps : servers) {
        const size_t size = 1 + random() % request.page_size();
        pages.push_back(PageOf(steps, request, size));
      }
      const auto merged = MergeSteps(pages, request.page_size(), false);
      ASSERT_LE(merged.steps_size(), static_cast<int>(request.page_size()));
      for (const v1::StepRecord& each : merged.steps()) {
        ASSERT_TRUE(told.empty() || each.step() < told.begin()->first);
        told[each.step()] = each.rounds_closed();
      }
      if (merged.next_page_token().empty()) break;
      ASSERT_GT(merged.next_page_token(), request.page_token());
      request.set_page_token(merged.next_page_token());
    }
    EXPECT_THAT(told, ElementsAreArray(expected));
  }
}

TEST(StepTokenTest, RisesAsStepsFallAndNothingElseIsOne) {
  for (const Step step : {Step{1}, Step{7}, Step{1} << 40, UINT64_MAX}) {
    EXPECT_EQ(*StepAbovePage(TokenBelowStep(step)), step);
  }
  EXPECT_LT(TokenBelowStep(10), TokenBelowStep(9));
  for (const char* wrong : {"", "7", "-0000000000000000001", "k"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(StepAbovePage(wrong).status()));
  }
}

}  // namespace
}  // namespace tensorkv
