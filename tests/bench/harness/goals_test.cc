#include "bench/harness/goals.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Optional;

// The goal of that name among all.
GoalResult Check(const std::string& goal, Row row) {
  Section section;
  section.rows.push_back(std::move(row));
  for (const GoalResult& result : CheckGoals({section})) {
    if (result.goal == goal) return result;
  }
  ADD_FAILURE() << "no goal " << goal;
  return {};
}

Row SpeedRow(const std::string& name, double ours, const std::string& reference,
             double other) {
  return {.name = name,
          .ours = {.gigabytes_per_second = ours},
          .references = {{reference, {.gigabytes_per_second = other}}}};
}

TEST(GoalsTest, NothingIsMeasuredWithoutRows) {
  EXPECT_THAT(CheckGoals({}), Each(Field(&GoalResult::value, std::nullopt)));
}

TEST(GoalsTest, ASpeedIsComparedWithItsReference) {
  const GoalResult met = Check("tcp/push/64MiB, speed by raw",
                               SpeedRow("tcp/push/64MiB", 2, "raw", 2.5));
  const GoalResult missed = Check("tcp/push/64MiB, speed by raw",
                                  SpeedRow("tcp/push/64MiB", 1, "raw", 2));

  EXPECT_THAT(met.value, Optional(DoubleEq(0.8)));
  EXPECT_TRUE(met.is_met());
  EXPECT_THAT(missed.value, Optional(DoubleEq(0.5)));
  EXPECT_FALSE(missed.is_met());
}

TEST(GoalsTest, RowsWithManyCallsInFlightDoNotCount) {
  Row row = SpeedRow("tcp/push/64MiB", 2, "raw", 2.5);
  row.in_flight = 16;

  EXPECT_EQ(Check("tcp/push/64MiB, speed by raw", row).value, std::nullopt);
}

TEST(GoalsTest, ALatencyHasAnUpperBound) {
  const GoalResult result =
      Check("tcp/pull/4KiB, p50 by echo",
            {.name = "tcp/pull/4KiB",
             .ours = {.p50_microseconds = 140},
             .references = {{"echo", {.p50_microseconds = 100}}}});

  EXPECT_THAT(result.value, Optional(DoubleEq(1.4)));
  EXPECT_FALSE(result.is_met());
}

TEST(GoalsTest, KeysPerSecondAreInMillions) {
  const GoalResult result = Check(
      "tcp/pushpull/10000x256B, M keys/s",
      {.name = "tcp/pushpull/10000x256B", .ours = {.keys_per_second = 2.5e6}});

  EXPECT_THAT(result.value, Optional(DoubleEq(2.5)));
  EXPECT_TRUE(result.is_met());
}

TEST(GoalsTest, MemoryIsAFigure) {
  const std::string name = "memory per key beyond its value, after init";
  Section section;
  section.figures.push_back({.name = name, .value = 250, .unit = "bytes"});

  EXPECT_THAT(CheckGoals({section}),
              ::testing::Contains(::testing::AllOf(
                  Field(&GoalResult::goal, name + ", bytes"),
                  Field(&GoalResult::value, Optional(DoubleEq(250))),
                  Field(&GoalResult::is_upper, true))));
}

TEST(GoalsTest, TheTableSaysWhatIsMet) {
  const std::string text =
      GoalsText({{.goal = "a", .bound = 0.65, .value = 0.7},
                 {.goal = "b", .bound = 1.3, .is_upper = true, .value = 1.5},
                 {.goal = "c", .bound = 3}});

  EXPECT_THAT(text, HasSubstr("| a    | >= 0.65 |     0.70 |          yes |"));
  EXPECT_THAT(text, HasSubstr("| b    |  <= 1.3 |     1.50 |           NO |"));
  EXPECT_THAT(text, HasSubstr("| c    |    >= 3 |        - | not measured |"));
}

}  // namespace
}  // namespace tensorkv::bench
