#include "client/cluster/mirrored_calls.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Full;
using testing::StatusIs;

TEST(InitMirroredTest, HomeThatAnswersForOtherKeysIsAnError) {
  const InitRequest request = {
      .on_existing = OnExisting::kKeep,
      .entries = {{.key = "a", .tensor = Full({1}, 1)}}};
  const auto init = [](const std::string&, const InitRequest&) {
    return absl::StatusOr<InitReply>(InitReply());
  };
  for (const size_t num_values : {0, 2}) {
    const auto pull = [&](const std::string&, const PullRequest&) {
      PullReply reply;
      reply.values.resize(num_values);
      return absl::StatusOr<PullReply>(reply);
    };

    EXPECT_THAT(InitMirrored({"home", "other"}, request, init, pull),
                StatusIs(absl::StatusCode::kInternal));
  }
}

}  // namespace
}  // namespace tensorkv
