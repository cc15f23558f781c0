#include "client/cli/usage_error.h"

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

TEST(UsageErrorTest, IsToldFromErrorsOfCalls) {
  EXPECT_TRUE(IsUsageError(UsageError("--x")));
  EXPECT_FALSE(IsUsageError(absl::InvalidArgumentError("--x")));
  EXPECT_FALSE(IsUsageError(absl::OkStatus()));
}

TEST(UsageErrorTest, ErrorsOfOthersGetTheirSubject) {
  const absl::Status status =
      AsUsageError("--npy=x", absl::NotFoundError("no such file"));

  EXPECT_TRUE(IsUsageError(status));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               "--npy=x: no such file"));
}

TEST(UsageErrorTest, OkIsNoError) {
  EXPECT_OK(AsUsageError("--npy=x", absl::OkStatus()));
}

}  // namespace
}  // namespace tensorkv
