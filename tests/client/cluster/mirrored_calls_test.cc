#include "client/cluster/mirrored_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using testing::Full;
using testing::StatusIs;

template <typename T>
Task<T> Made(T value) {
  co_return value;
}

TEST(InitMirroredTest, HomeThatAnswersForOtherKeysIsAnError) {
  const InitRequest request = {
      .on_existing = OnExisting::kKeep,
      .entries = {{.key = "a", .tensor = Full({1}, 1)}}};
  const auto init = [](const std::string&, const InitRequest&) {
    return Made<absl::StatusOr<InitReply>>(InitReply());
  };
  for (const size_t num_values : {0, 2}) {
    const auto pull = [&](const std::string&, const PullRequest&) {
      PullReply reply;
      reply.values.resize(num_values);
      return Made<absl::StatusOr<PullReply>>(std::move(reply));
    };

    EXPECT_THAT(InitMirrored({"home", "other"}, request, init, pull).Run(),
                StatusIs(absl::StatusCode::kInternal));
  }
}

TEST(SetStateMirroredTest, HomeDecidesAndOthersFollow) {
  const SetStateRequest request = {
      .entries = {{"w", "momentum", Full({1}, 1)}}};
  for (const absl::Status& at_home :
       {absl::OkStatus(), absl::NotFoundError("no such state")}) {
    std::vector<std::string> asked;
    const auto set = [&](const std::string& server, const SetStateRequest&) {
      asked.push_back(server);
      using Reply = absl::StatusOr<SetStateReply>;
      if (server == "home" && !at_home.ok()) return Made<Reply>(at_home);
      return Made<Reply>(
          SetStateReply{.versions = {server == "home" ? 7u : 8u}});
    };

    const auto reply =
        SetStateMirrored({"home", "other", "third"}, request, set).Run();

    EXPECT_EQ(reply.status(), at_home);
    EXPECT_EQ(asked.size(), at_home.ok() ? 3u : 1u);
    EXPECT_EQ(asked[0], "home");
    if (reply.ok()) {
      EXPECT_THAT(reply->versions, ElementsAre(7u));
    }
  }
}

}  // namespace
}  // namespace tensorkv
