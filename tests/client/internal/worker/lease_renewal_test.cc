#include "client/internal/worker/lease_renewal.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(RenewalScheduleTest, RenewalThatIsLostLeavesTimeForAnother) {
  // What a call may take beyond its timeout.
  constexpr absl::Duration kGrace = absl::Milliseconds(100);
  for (const absl::Duration lease : {absl::Seconds(1), absl::Seconds(10),
                                     absl::Seconds(15), absl::Hours(1)}) {
    const RenewalSchedule schedule(lease);

    const absl::Duration second =
        schedule.after_success +
        std::max(schedule.after_failure, schedule.call_timeout + kGrace);
    EXPECT_LT(second + schedule.call_timeout + kGrace, lease) << lease;
  }
}

}  // namespace
}  // namespace tensorkv
