#include "kernels/cuda/device_health.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::StatusIs;

TEST(DeviceHealthTest, FirstCauseStaysAndIsUnavailable) {
  DeviceHealth health("cuda:1");
  EXPECT_OK(health.status());

  EXPECT_THAT(
      health.Fail(absl::InternalError("lost")),
      StatusIs(absl::StatusCode::kUnavailable, "cuda:1 has failed: lost"));
  EXPECT_THAT(
      health.Fail(absl::InternalError("again")),
      StatusIs(absl::StatusCode::kUnavailable, "cuda:1 has failed: lost"));

  EXPECT_THAT(health.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        "cuda:1 has failed: lost"));
}

}  // namespace
}  // namespace tensorkv
