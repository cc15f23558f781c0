#include "client/internal/open_contributions.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
  OpenContributions::Contribution Hold(Step step,
                                       const std::vector<std::string>& keys) {
    const auto contribution = open_.Add(step, SkippedEntries(keys));
    open_.SetHeld(contribution);
    return contribution;
  }

  OpenContributions open_;
};

TEST_F(OpenContributionsTest, AreInTheOrderOfTheirSteps) {
  Hold(8, {"a"});
  Hold(7, {"b"});
  Hold(7, {"a"});

  EXPECT_THAT(TextOf(open_), ElementsAre("7:b", "7:a", "8:a"));
  EXPECT_EQ(open_.NextStep(), 7u);
}

TEST_F(OpenContributionsTest, PullRemovesWhatWasHeldWhenItBegan) {
  Hold(7, {"a", "b"});
  const uint64_t held = open_.HeldNow();
  Hold(8, {"a"});
  open_.Add(9, SkippedEntries({"a"}));

  open_.RemoveHeld({"a", "c"}, held);

  EXPECT_THAT(TextOf(open_), ElementsAre("7:b", "8:a", "9:a"));
}

TEST_F(OpenContributionsTest, WhatIsPushedAgainIsHeldAnew) {
  const auto contribution = Hold(7, {"a"});
  const uint64_t held = open_.HeldNow();
  open_.SetHeld(contribution);

  open_.RemoveHeld({"a"}, held);

  EXPECT_THAT(TextOf(open_), ElementsAre("7:a"));
}

TEST_F(OpenContributionsTest, ClosedRoundClosesTheEarlierOnesOfItsKeys) {
  Hold(7, {"a", "b"});
  const auto contribution = Hold(8, {"a"});
  Hold(9, {"a"});

  open_.RemoveUpTo(contribution);

  EXPECT_THAT(TextOf(open_), ElementsAre("7:b", "9:a"));
}

TEST_F(OpenContributionsTest, NoMoreThan64StepsOfAKeyAreKept) {
  for (Step step = 1; step <= 100; ++step) Hold(step, {"never pulled"});

  EXPECT_EQ(open_.InOrder().size(), 64u);
}

TEST_F(OpenContributionsTest, WhatWasRefusedIsForgottenAndItsStepComesAgain) {
  Hold(7, {"a"});
  open_.RemoveHeld({"a"}, open_.HeldNow());

  open_.Remove(open_.Add(8, SkippedEntries({"a"})));

  EXPECT_THAT(TextOf(open_), IsEmpty());
  EXPECT_EQ(open_.NextStep(), 8u);
}

}  // namespace
}  // namespace tensorkv
