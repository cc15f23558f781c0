#include "bench/harness/load.h"

#include <atomic>
#include <barrier>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::Ge;
using ::testing::SizeIs;

TEST(FunctionLoadTest, MakesSoManyCallsAndTimesEach) {
  int num_calls = 0;
  FunctionLoad load({}, [&](int) {
    ++num_calls;
    return absl::OkStatus();
  });
  std::vector<absl::Duration> latencies;

  ASSERT_OK(load.Run(3, &latencies));

  EXPECT_EQ(num_calls, 3);
  EXPECT_THAT(latencies, SizeIs(3));
  EXPECT_THAT(latencies, Each(Ge(absl::ZeroDuration())));
}

TEST(FunctionLoadTest, AnErrorEndsTheRun) {
  int num_calls = 0;
  FunctionLoad load({}, [&](int) {
    return ++num_calls == 2 ? absl::AbortedError("second") : absl::OkStatus();
  });
  std::vector<absl::Duration> latencies;

  EXPECT_THAT(load.Run(3, &latencies),
              StatusIs(absl::StatusCode::kAborted, "second"));
  EXPECT_EQ(num_calls, 2);
}

TEST(FunctionLoadTest, LanesRunAtOnceAndTheCleanUpAtTheEnd) {
  std::vector<absl::Duration> latencies;
  std::vector<std::atomic<int>> calls_of_lane(4);
  // Opens when all four lanes are in a call.
  std::barrier<> all_lanes(4);
  bool is_cleaned_up = false;
  {
    FunctionLoad load(
        {.in_flight = 4},
        [&](int lane) {
          ++calls_of_lane[lane];
          all_lanes.arrive_and_wait();
          return absl::OkStatus();
        },
        [&] { is_cleaned_up = true; });
    ASSERT_OK(load.Run(8, &latencies));
    EXPECT_FALSE(is_cleaned_up);
  }

  for (const std::atomic<int>& calls : calls_of_lane) EXPECT_EQ(calls, 2);
  EXPECT_THAT(latencies, SizeIs(8));
  EXPECT_TRUE(is_cleaned_up);
}

TEST(FunctionLoadTest, AnErrorOfOneLaneEndsTheOthers) {
  FunctionLoad load({.in_flight = 2}, [](int lane) {
    return lane == 1 ? absl::UnavailableError("gone") : absl::OkStatus();
  });
  std::vector<absl::Duration> latencies;

  EXPECT_THAT(load.Run(10'000'000, &latencies),
              StatusIs(absl::StatusCode::kUnavailable, "gone"));
}

}  // namespace
}  // namespace tensorkv::bench
