#include "client/internal/worker/open_contributions.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/reason_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<PushEntry> SkippedEntries(const std::vector<std::string>& keys) {
  std::vector<PushEntry> entries;
  for (const std::string& key : keys) entries.push_back({.key = key});
  return entries;
}

// As "7:ab" for the keys a and b of step 7.
std::vector<std::string> TextOf(const OpenContributions& open) {
  std::vector<std::string> texts;
  for (const auto& contribution : open.InOrder()) {
    texts.push_back(std::to_string(contribution.step) + ":");
    for (const PushEntry& entry : *contribution.entries) {
      texts.back() += entry.key;
    }
  }
  return texts;
}

class OpenContributionsTest : public ::testing::Test {
 protected:
  OpenContributions::Contribution Add(Step step,
                                      const std::vector<std::string>& keys) {
    return open_.Add(open_.life(), step, SkippedEntries(keys)).value();
  }
  OpenContributions::Contribution Hold(Step step,
                                       const std::vector<std::string>& keys) {
    const auto contribution = Add(step, keys);
    open_.SetWaiting(contribution);
    return contribution;
  }

  OpenContributions open_{/*max_open_rounds=*/4};
};

TEST_F(OpenContributionsTest, AreInTheOrderOfTheirSteps) {
  Hold(8, {"a"});
  Hold(7, {"b"});
  Hold(7, {"a"});

  EXPECT_THAT(TextOf(open_), ElementsAre("7:b", "7:a", "8:a"));
  EXPECT_EQ(open_.NextStep(), 7u);
}

TEST_F(OpenContributionsTest, ForgetsAllThatWasMadeBeforeTheServerWentBack) {
  open_.BeginWith(7);
  EXPECT_EQ(open_.NextStep(), 7u);
  const auto former = Add(7, {"a"});

  open_.GoBackTo(4);
  open_.SetWaiting(former);
  open_.RemoveUpTo(former);

  EXPECT_THAT(open_.CheckKept(former),
              testing::HasReason(Reason::kServerRestarted));
  for (const Step step : {Step{4}, Step{7}, Step{8}, Step{0}}) {
    EXPECT_THAT(open_.Add(open_.life(), step, SkippedEntries({"a"})),
                testing::HasReason(Reason::kServerRestarted));
  }
  EXPECT_THAT(TextOf(open_), IsEmpty());
  EXPECT_EQ(open_.NextStep(), 4u);
  EXPECT_TRUE(open_.IsForgetting());
  const uint64_t life = open_.life();
  EXPECT_EQ(open_.Resume(), 4u);
  EXPECT_OK(open_.CheckKept(Add(4, {"a"})));
  // A push that was begun before is for the state that is gone.
  EXPECT_THAT(open_.Add(life - 1, 4, SkippedEntries({"a"})),
              testing::HasReason(Reason::kServerRestarted));
}

TEST_F(OpenContributionsTest, StepThatWasToldIsForgottenToo) {
  open_.BeginWith(7);
  EXPECT_EQ(open_.Resume(), 7u);
  open_.GoBackTo(4);
  EXPECT_EQ(open_.Resume(), 4u);

  open_.GoBackTo(2);

  EXPECT_FALSE(open_.Add(open_.life(), 4, SkippedEntries({"a"})).ok());
  EXPECT_EQ(open_.Resume(), 2u);
}

TEST_F(OpenContributionsTest, PullRemovesWhatWasHeldWhenItBegan) {
  Hold(7, {"a", "b"});
  const uint64_t held = open_.WaitingMark();
  Hold(8, {"a"});
  Add(9, {"a"});

  open_.RemoveWaiting({"a", "c"}, held);

  EXPECT_THAT(TextOf(open_), ElementsAre("7:b", "8:a", "9:a"));
}

TEST_F(OpenContributionsTest, CarriedIsKeptUntilTheRoundThatHasItIsClosed) {
  const auto late = Add(7, {"a", "b", "c"});
  open_.SetCarried(
      late, {{9, SkippedEntries({"a", "c"})}, {10, SkippedEntries({"b"})}});
  EXPECT_THAT(TextOf(open_), ElementsAre("7:ac", "7:b"));
  EXPECT_EQ(open_.NextStep(), 8u);
  EXPECT_TRUE(open_.Has(7, "a"));

  Hold(8, {"a", "b", "c"});
  open_.RemoveWaiting({"a", "b", "c"}, open_.WaitingMark());
  EXPECT_THAT(TextOf(open_), ElementsAre("7:ac", "7:b"));
  Hold(9, {"a", "b"});
  open_.RemoveWaiting({"a", "b"}, open_.WaitingMark());
  EXPECT_THAT(TextOf(open_), ElementsAre("7:c", "7:b"));
  open_.RemoveUpTo(Hold(10, {"b", "c"}));

  EXPECT_THAT(TextOf(open_), IsEmpty());
  EXPECT_EQ(open_.NextStep(), 11u);
}

// No more can be carried again.
TEST_F(OpenContributionsTest, OnlyTheLatestStepsOfAKeyAreKeptThatAreCarried) {
  for (Step step = 1; step <= 100; ++step) {
    const auto late = Add(step, {"a", "b"});
    open_.SetCarried(late, {{step + 2, SkippedEntries({"a"})}});
    open_.RemoveKey(late, "b");
  }

  EXPECT_THAT(TextOf(open_), ElementsAre("97:a", "98:a", "99:a", "100:a"));
  EXPECT_EQ(open_.NextStep(), 101u);
}

// A repeat may be held by another round than before.
TEST_F(OpenContributionsTest, CarriedIsHeldByTheRoundThatWasToldLast) {
  open_.SetCarried(Add(7, {"a"}), {{9, SkippedEntries({"a"})}});
  const auto again = open_.InOrder().front();
  EXPECT_TRUE(again.is_carried);

  open_.SetCarried(again, {{10, SkippedEntries({"a"})}});
  open_.RemoveUpTo(Hold(9, {"a"}));
  EXPECT_THAT(TextOf(open_), ElementsAre("7:a"));
  open_.RemoveUpTo(Hold(10, {"a"}));

  EXPECT_THAT(TextOf(open_), IsEmpty());
}

TEST_F(OpenContributionsTest, WhatIsPushedAgainIsHeldAnew) {
  const auto contribution = Hold(7, {"a"});
  const uint64_t held = open_.WaitingMark();
  open_.SetWaiting(contribution);

  open_.RemoveWaiting({"a"}, held);

  EXPECT_THAT(TextOf(open_), ElementsAre("7:a"));
}

TEST_F(OpenContributionsTest, ClosedRoundClosesTheEarlierOnesOfItsKeys) {
  Hold(7, {"a", "b"});
  const auto contribution = Hold(8, {"a"});
  Hold(9, {"a"});

  open_.RemoveUpTo(contribution);

  EXPECT_THAT(TextOf(open_), ElementsAre("7:b", "9:a"));
}

TEST_F(OpenContributionsTest, OnlyTheLatestStepsOfAKeyAreKept) {
  Hold(1, {"seldom"});
  Add(2, {"a"});
  for (Step step = 1; step <= 100; ++step) {
    Hold(step, {"a"});
    Hold(step, {"b", "c"});
  }
  Hold(100, {"a"});
  Hold(101, {"c", "seldom"});

  EXPECT_THAT(
      TextOf(open_),
      ElementsAre("1:seldom", "2:a", "97:a", "97:b", "98:a", "98:bc", "99:a",
                  "99:bc", "100:a", "100:bc", "100:a", "101:cseldom"));
}

TEST_F(OpenContributionsTest, WhatWasRefusedIsForgottenAndItsStepComesAgain) {
  Hold(7, {"a"});
  open_.RemoveWaiting({"a"}, open_.WaitingMark());

  open_.Remove(Add(8, {"a"}));

  EXPECT_THAT(TextOf(open_), IsEmpty());
  EXPECT_EQ(open_.NextStep(), 8u);
}

}  // namespace
}  // namespace tensorkv
