#include "bench/harness/load.h"

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
  FunctionLoad load({}, [&] {
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
  FunctionLoad load({}, [&] {
    return ++num_calls == 2 ? absl::AbortedError("second") : absl::OkStatus();
  });
  std::vector<absl::Duration> latencies;

  EXPECT_THAT(load.Run(3, &latencies),
              StatusIs(absl::StatusCode::kAborted, "second"));
  EXPECT_EQ(num_calls, 2);
}

}  // namespace
}  // namespace tensorkv::bench
