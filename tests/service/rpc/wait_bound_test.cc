#include "service/rpc/wait_bound.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(WaitBoundTest, ShortDeadlineEndsTenPercentEarlier) {
  EXPECT_EQ(WaitBound(absl::Seconds(1)), absl::Milliseconds(900));
}

TEST(WaitBoundTest, LongDeadlineEnds200MillisecondsAndOnePercentEarlier) {
  EXPECT_EQ(WaitBound(absl::Seconds(5)), absl::Milliseconds(4750));
  EXPECT_EQ(WaitBound(absl::Seconds(600)), absl::Milliseconds(593'800));
}

TEST(WaitBoundTest, DeadlineInThePastLeavesNoTime) {
  EXPECT_EQ(WaitBound(absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_EQ(WaitBound(-absl::Seconds(3)), absl::ZeroDuration());
}

}  // namespace
}  // namespace tensorkv
