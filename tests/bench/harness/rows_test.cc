#include "bench/harness/rows.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace rows_test {

using ::tensorkv::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;

constexpr MeasureOptions kTwoTrials = {.repetitions = 2,
                                       .trial_time = absl::Nanoseconds(1)};

// A load whose calls take so long, as far as it says, and are written down.
MakeLoad Taking(absl::Duration time, const std::string& name = "",
                std::vector<std::string>* calls = nullptr) {
  return [=] {
    return Load{.call =
                    [=] {
                      if (calls != nullptr) calls->push_back(name);
                      return absl::OkStatus();
                    },
                .bytes = 1000,
                .took = [=] { return time; }};
  };
}

TEST(MeasureRowTest, LoadsRunInTurnsAfterAWarmUpOfEach) {
  std::vector<std::string> calls;
  const absl::Duration time = absl::Microseconds(1);

  MeasureRow({.make_load = Taking(time, "ours", &calls),
              .references = {{"other", Taking(time, "other", &calls)}}},
             kTwoTrials);

  EXPECT_THAT(calls,
              ElementsAre("ours", "other", "ours", "other", "ours", "other"));
}

TEST(MeasureRowTest, FiguresAreThoseOfTheTimes) {
  const RowResult result =
      MeasureRow({.make_load = Taking(absl::Microseconds(10)),
                  .references = {{"other", Taking(absl::Microseconds(25))}}},
                 kTwoTrials);

  EXPECT_OK(result.status);
  EXPECT_DOUBLE_EQ(result.columns.at("p50_us"), 10);
  EXPECT_DOUBLE_EQ(result.columns.at("p99_us"), 10);
  EXPECT_DOUBLE_EQ(result.columns.at("GB/s"), 0.1);
  EXPECT_DOUBLE_EQ(result.ratios.at("other"), 2.5);
}

TEST(MeasureRowTest, CallsFillATrial) {
  std::vector<std::string> calls;

  MeasureRow({.make_load = Taking(absl::Milliseconds(1), "ours", &calls)},
             {.repetitions = 1, .trial_time = absl::Milliseconds(100)});

  // The warm-up has 1, 4, 16 and 64, of which the last tells: 100.
  EXPECT_EQ(calls.size(), 1 + 4 + 16 + 64 + 100);
}

TEST(MeasureRowTest, GoalsAreMetOrMissedByTheirRatio) {
  const auto twice = Taking(absl::Microseconds(20));
  const RowResult result =
      MeasureRow({.make_load = Taking(absl::Microseconds(10)),
                  .references = {{"met", twice, 2}, {"missed", twice, 2.5}},
                  .most_time = absl::Microseconds(9)},
                 kTwoTrials);

  EXPECT_EQ(result.num_goals, 3);
  EXPECT_THAT(result.missed, ElementsAre("missed < 2.5", "p50_us > 9"));
}

TEST(MeasureRowTest, AReferenceThatFailsIsLeftOutWithTheReason) {
  const RowResult result = MeasureRow(
      {.make_load = Taking(absl::Microseconds(1)),
       .references = {{"other",
                       [] { return absl::NotFoundError("not installed"); },
                       1}}},
      kTwoTrials);

  EXPECT_OK(result.status);
  EXPECT_THAT(result.ratios, IsEmpty());
  EXPECT_THAT(result.left_out, ElementsAre("other: not installed"));
  EXPECT_EQ(result.num_goals, 0);
}

TEST(MeasureRowTest, WithoutOursThereIsNoRow) {
  const RowResult result = MeasureRow(
      {.make_load =
           [] {
             return Load{.call = [] { return absl::InternalError("broken"); }};
           }},
      kTwoTrials);

  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("broken")));
}

TEST(MeasureRowTest, CallsThatReturnEarlyAreWaitedForOncePerTrial) {
  int num_waits = 0;
  const RowResult result =
      MeasureRow({.make_load =
                      [&] {
                        return Load{.call = [] { return absl::OkStatus(); },
                                    .bytes = 1,
                                    .wait =
                                        [&] {
                                          ++num_waits;
                                          return absl::OkStatus();
                                        }};
                      }},
                 kTwoTrials);

  EXPECT_EQ(num_waits, 3);
  EXPECT_THAT(result.columns, Contains(Key("GB/s")));
}

TEST(MeasureRowTest, AFigureHasAnUpperBound) {
  const RowResult result =
      MeasureRow({.figure = [] { return 301.0; }, .most = 300}, kTwoTrials);

  EXPECT_THAT(result.columns, ElementsAre(Pair("figure", 301)));
  EXPECT_THAT(result.missed, ElementsAre("> 300"));
}

}  // namespace rows_test
}  // namespace tensorkv::bench
