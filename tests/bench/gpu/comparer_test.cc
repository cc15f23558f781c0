#include "bench/gpu/comparer.h"

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/harness/fake_load.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::FakeLoad;
using ::tensorkv::testing::FakeMachine;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ComparerTest : public ::testing::Test {
 protected:
  // A load of 1000 bytes a call.
  Entrant Takes(const std::string& name, absl::Duration time_per_call) {
    return {name,
            std::make_unique<FakeLoad>(name, LoadShape{.bytes_per_call = 1000},
                                       time_per_call, &machine_)};
  }

  FakeMachine machine_;
  std::ostringstream progress_;
  RowRunner runner_{
      {.measure = {.repetitions = 5, .trial_time = absl::Microseconds(10)},
       .only = "update"},
      &progress_,
      {.steady_time = [this] { return machine_.now; }}};
  ComparisonTable table_;
  Comparer comparer_{&runner_, &table_};
};

TEST_F(ComparerTest, WantsWhatTheRunIsAbout) {
  EXPECT_TRUE(comparer_.Wants("update/adam"));
  EXPECT_FALSE(comparer_.Wants("staging"));
}

TEST_F(ComparerTest, EachRivalGivesAComparison) {
  std::vector<Rival> rivals;
  rivals.push_back({Takes("copy", absl::Microseconds(1)), 0.9});
  rivals.push_back({Takes("one by one", absl::Microseconds(8)), std::nullopt});

  comparer_.AddSpeeds("update", 400, Takes("ours", absl::Microseconds(2)),
                      std::move(rivals));

  ASSERT_THAT(table_.comparisons, SizeIs(2));
  const Comparison& copy = table_.comparisons[0];
  EXPECT_EQ(copy.name, "update");
  EXPECT_EQ(copy.bytes, 400);
  EXPECT_THAT(copy.ours, DoubleNear(0.5, 1e-9));
  EXPECT_EQ(copy.unit, "GB/s");
  EXPECT_EQ(copy.limit->name, "copy");
  EXPECT_THAT(copy.limit->value, DoubleNear(1, 1e-9));
  EXPECT_THAT(copy.limit->ratio, DoubleNear(0.5, 1e-9));
  EXPECT_EQ(copy.limit->goal, 0.9);
  EXPECT_FALSE(copy.limit->is_met());
  const Comparison& one_by_one = table_.comparisons[1];
  EXPECT_THAT(one_by_one.limit->ratio, DoubleNear(4, 1e-9));
  EXPECT_EQ(one_by_one.limit->goal, std::nullopt);
  EXPECT_TRUE(one_by_one.limit->is_met());
}

TEST_F(ComparerTest, RivalsAreMeasuredInTurnsAfterAWarmUp) {
  std::vector<Rival> rivals;
  rivals.push_back({Takes("copy", absl::Microseconds(10)), 0.9});

  comparer_.AddSpeeds("update", 400, Takes("ours", absl::Microseconds(10)),
                      std::move(rivals));

  std::vector<std::string> order;
  for (const auto& [name, num_calls] : machine_.runs) order.push_back(name);
  EXPECT_THAT(order, ElementsAre("ours", "copy",  // warm-up
                                 "ours", "copy", "ours", "copy", "ours", "copy",
                                 "ours", "copy", "ours", "copy"));
}

TEST_F(ComparerTest, ARivalThatFailsIsLeftOut) {
  std::vector<Rival> rivals;
  rivals.push_back({{"copy", absl::ResourceExhaustedError("too large")}, 0.9});

  comparer_.AddSpeeds("update", 400, Takes("ours", absl::Microseconds(2)),
                      std::move(rivals));

  ASSERT_THAT(table_.comparisons, SizeIs(1));
  EXPECT_FALSE(table_.comparisons[0].limit.has_value());
  EXPECT_THAT(table_.left_out,
              ElementsAre("update, 1 in flight, copy: too large"));
}

TEST_F(ComparerTest, WithoutOursThereIsNoFigure) {
  comparer_.AddSpeeds("update", 400,
                      {"ours", absl::ResourceExhaustedError("too large")}, {});

  EXPECT_THAT(table_.comparisons, IsEmpty());
  EXPECT_THAT(table_.left_out,
              ElementsAre("update, 1 in flight, ours: too large"));
}

TEST_F(ComparerTest, TimesAreBesideAPublishedOne) {
  comparer_.AddTimes("update", 400, Takes("ours", absl::Microseconds(50)),
                     PublishedTime{"other", 800, 13});

  ASSERT_THAT(table_.comparisons, SizeIs(2));
  const Comparison& median = table_.comparisons[0];
  EXPECT_EQ(median.ours, 50);
  EXPECT_EQ(median.unit, "us");
  EXPECT_EQ(median.limit->name, "other");
  EXPECT_EQ(median.limit->value, 800);
  EXPECT_EQ(median.limit->ratio, 16);
  EXPECT_TRUE(median.limit->is_met());
  EXPECT_EQ(table_.comparisons[1].name, "update/p99");
  EXPECT_EQ(table_.comparisons[1].ours, 50);
}

TEST_F(ComparerTest, TimesMayStandAlone) {
  comparer_.AddTimes("update", 400, Takes("ours", absl::Microseconds(50)),
                     std::nullopt);

  ASSERT_THAT(table_.comparisons, SizeIs(2));
  EXPECT_FALSE(table_.comparisons[0].limit.has_value());
}

}  // namespace
}  // namespace tensorkv::bench::gpu
