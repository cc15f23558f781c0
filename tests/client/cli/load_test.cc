#include "client/cli/load.h"

#include <array>
#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(LoadTest, EachThreadMakesACallAndAllAreCounted) {
  std::array<std::atomic<uint64_t>, 3> calls = {};

  const absl::StatusOr<LoadResult> result =
      RunLoad(3, absl::Nanoseconds(1), [&](int thread) {
        ++calls[thread];
        return absl::OkStatus();
      });

  ASSERT_OK(result);
  for (const auto& each : calls) EXPECT_GE(each, 1);
  EXPECT_EQ(result->num_calls, calls[0] + calls[1] + calls[2]);
  EXPECT_LE(result->median, result->p99);
  EXPECT_LE(result->p99, result->duration);
}

TEST(LoadTest, AnErrorEndsAllThreads) {
  const absl::StatusOr<LoadResult> result =
      RunLoad(2, absl::InfiniteDuration(), [](int thread) {
        return thread == 0 ? absl::OkStatus() : absl::AbortedError("no more");
      });

  EXPECT_THAT(result, StatusIs(absl::StatusCode::kAborted));
}

TEST(LoadTest, TableHasRates) {
  LoadResult result = {.call = "push", .bytes_per_call = 1 << 20};
  result.num_calls = 200;
  result.duration = absl::Seconds(2);
  result.median = absl::Microseconds(1500);

  EXPECT_THAT(LoadTable({result}),
              HasSubstr("push  1.0 MiB  200    100.0    100.0 MiB/s  "
                        "1.500 ms  0.000 ms\n"));
}

}  // namespace
}  // namespace tensorkv
