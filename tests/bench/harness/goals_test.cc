#include "bench/harness/goals.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace goals_test {

using ::testing::DoubleEq;
using ::testing::HasSubstr;
using ::testing::Optional;

// A goal about a row "row", which was measured beside "other".
Section SectionWith(Goal goal) {
  goal.name = "row";
  goal.reference = "other";
  return {.rows = {{.name = "row",
                    .ours = {.gigabytes_per_second = 2,
                             .keys_per_second = 2.5e6,
                             .p50_microseconds = 140},
                    .references = {{"other",
                                    {.gigabytes_per_second = 2.5,
                                     .p50_microseconds = 100}}}}},
          .figures = {{.name = "row", .value = 250}},
          .goals = {goal}};
}

GoalResult Check(Goal goal) { return CheckGoals({SectionWith(goal)}).at(0); }

TEST(GoalsTest, EachKindHasItsValueAndBound) {
  const GoalResult speed = Check({.kind = Goal::Kind::kSpeed, .bound = 0.8});
  const GoalResult time =
      Check({.kind = Goal::Kind::kMedianTime, .bound = 1.3});
  const GoalResult keys =
      Check({.kind = Goal::Kind::kMillionKeysPerSecond, .bound = 3});
  const GoalResult figure = Check({.kind = Goal::Kind::kFigure, .bound = 300});

  EXPECT_THAT(speed.value, Optional(DoubleEq(0.8)));
  EXPECT_TRUE(speed.is_met());
  EXPECT_THAT(time.value, Optional(DoubleEq(1.4)));
  EXPECT_FALSE(time.is_met());
  EXPECT_THAT(keys.value, Optional(DoubleEq(2.5)));
  EXPECT_FALSE(keys.is_met());
  EXPECT_THAT(figure.value, Optional(DoubleEq(250)));
  EXPECT_TRUE(figure.is_met());
}

TEST(GoalsTest, WhatWasNotMeasuredIsNotMet) {
  Section section = SectionWith({});
  section.goals[0].reference = "another";

  EXPECT_EQ(CheckGoals({section})[0].value, std::nullopt);
  EXPECT_FALSE(CheckGoals({section})[0].is_met());
}

TEST(GoalsTest, TheRowWithTheFewestCallsInFlightCounts) {
  Section section = SectionWith({});
  section.rows.insert(section.rows.begin(), section.rows[0]);
  section.rows[0].in_flight = 16;
  section.rows[0].ours.gigabytes_per_second = 100;

  EXPECT_THAT(CheckGoals({section})[0].value, Optional(DoubleEq(0.8)));
}

TEST(GoalsTest, TheTableSaysWhatIsMet) {
  const std::string text = GoalsText(
      {{{.name = "a", .bound = 0.65, .reference = "raw"}, 0.7},
       {{.name = "b", .kind = Goal::Kind::kFigure, .bound = 1.3}, 1.5},
       {{.name = "c", .bound = 3, .reference = "raw"}, std::nullopt}});

  EXPECT_THAT(text, HasSubstr("| a, speed by raw | >= 0.65 |     0.70 |"));
  EXPECT_THAT(text, HasSubstr("|  <= 1.3 |     1.50 |           NO |"));
  EXPECT_THAT(text, HasSubstr("|    >= 3 |        - | not measured |"));
}

}  // namespace goals_test
}  // namespace tensorkv::bench
