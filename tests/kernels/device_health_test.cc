#include "kernels/device_health.h"

#include <string>
#include <vector>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using testing::StatusIs;

TEST(DeviceHealthTest, FirstCauseStaysAndIsUnavailable) {
  DeviceHealth health("cuda:1");
  EXPECT_OK(health.status());

  EXPECT_THAT(
      health.MarkFailed(absl::InternalError("lost")),
      StatusIs(absl::StatusCode::kUnavailable, "cuda:1 has failed: lost"));
  EXPECT_THAT(
      health.MarkFailed(absl::InternalError("again")),
      StatusIs(absl::StatusCode::kUnavailable, "cuda:1 has failed: lost"));

  EXPECT_THAT(health.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        "cuda:1 has failed: lost"));
  EXPECT_THAT(health.status(), testing::HasReason(Reason::kDeviceFailed));
}

class DeviceHealthListenerTest : public ::testing::Test {
 protected:
  DeviceHealth::Listener Listener() {
    return [this](const absl::Status& status) {
      heard_.emplace_back(status.message());
    };
  }

  DeviceHealth health_{"cuda:1"};
  std::vector<std::string> heard_;
};

TEST_F(DeviceHealthListenerTest, HearsOfTheFirstFailureOnce) {
  health_.SetListener(Listener());
  EXPECT_THAT(heard_, ElementsAre());

  health_.MarkFailed(absl::InternalError("lost"))
      .IgnoreError();  // that is heard
  health_.MarkFailed(absl::InternalError("again")).IgnoreError();

  EXPECT_THAT(heard_, ElementsAre("cuda:1 has failed: lost"));
}

TEST_F(DeviceHealthListenerTest, HearsOfAFailureBefore) {
  health_.MarkFailed(absl::InternalError("lost")).IgnoreError();

  health_.SetListener(Listener());

  EXPECT_THAT(heard_, ElementsAre("cuda:1 has failed: lost"));
}

TEST_F(DeviceHealthListenerTest, HearsNothingOnceItIsReplaced) {
  health_.SetListener(Listener());
  health_.SetListener(nullptr);

  health_.MarkFailed(absl::InternalError("lost")).IgnoreError();

  EXPECT_THAT(heard_, ElementsAre());
}

}  // namespace
}  // namespace tensorkv
