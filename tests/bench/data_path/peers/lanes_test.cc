#include "bench/data_path/peers/lanes.h"

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::SizeIs;

TEST(LanesTest, OneLaneRunsOnTheCallersThread) {
  std::vector<absl::Duration> latencies;
  const std::thread::id caller = std::this_thread::get_id();

  ASSERT_OK(RunOnLanes(
      1, 3,
      [&](int lane) {
        EXPECT_EQ(lane, 0);
        EXPECT_EQ(std::this_thread::get_id(), caller);
        return absl::OkStatus();
      },
      &latencies));

  EXPECT_THAT(latencies, SizeIs(3));
}

TEST(LanesTest, LanesRunAtOnce) {
  std::vector<absl::Duration> latencies;
  std::vector<std::atomic<int>> calls_of_lane(4);
  // Opens when all four lanes are in a call.
  std::barrier<> all_lanes(4);

  ASSERT_OK(RunOnLanes(
      4, 8,
      [&](int lane) {
        ++calls_of_lane[lane];
        all_lanes.arrive_and_wait();
        return absl::OkStatus();
      },
      &latencies));

  for (const std::atomic<int>& calls : calls_of_lane) EXPECT_EQ(calls, 2);
  EXPECT_THAT(latencies, SizeIs(8));
}

TEST(LanesTest, AnErrorEndsTheRun) {
  std::vector<absl::Duration> latencies;

  EXPECT_THAT(
      RunOnLanes(
          2, int64_t{1} << 60,
          [](int) { return absl::UnavailableError("gone"); }, &latencies),
      StatusIs(absl::StatusCode::kUnavailable, "gone"));
}

}  // namespace
}  // namespace tensorkv::bench
