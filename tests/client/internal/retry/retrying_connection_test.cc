#include "client/internal/retry/retrying_connection.h"

#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/scripted_connection.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::Script;
using ::tensorkv::testing::ScriptedConnection;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

class RetryingConnectionTest : public ::testing::TestWithParam<std::string> {
 protected:
  RetryingConnectionTest()
      : connection_(std::make_unique<ScriptedConnection>(script_), Backoff(),
                    {.now = [this] { return now_; },
                     .sleep = [this](absl::Duration pause,
                                     const auto&) { now_ += pause; },
                     .random = [] { return 0.5; }}) {
    script_.statuses = {absl::UnavailableError("down")};
  }

  absl::Duration now_;
  Script script_;
  RetryingConnection connection_;
};

using IdempotentVerbsTest = RetryingConnectionTest;
INSTANTIATE_TEST_SUITE_P(, IdempotentVerbsTest,
                         ::testing::Values("Pull", "PullRows", "GetState",
                                           "List", "Stat", "DescribeNamespace",
                                           "ListNamespaces", "SetRule",
                                           "SetMultipliers", "UpdateNamespace",
                                           "SetHyperparameters",
                                           "DescribeServer"));

TEST_P(IdempotentVerbsTest, AreRepeatedWhenUnavailable) {
  EXPECT_THAT(CallVerb(GetParam(), connection_), IsOk());

  EXPECT_THAT(script_.verbs, ElementsAre(GetParam(), GetParam()));
}

using UnsafeVerbsTest = RetryingConnectionTest;
INSTANTIATE_TEST_SUITE_P(, UnsafeVerbsTest,
                         ::testing::Values("Init", "Push", "PushPull",
                                           "PushRows", "SetState", "Delete",
                                           "CreateNamespace", "DeleteNamespace",
                                           "UnsetRule", "UnsetMultipliers"));

TEST_P(UnsafeVerbsTest, AreMadeOnce) {
  EXPECT_THAT(CallVerb(GetParam(), connection_),
              StatusIs(absl::StatusCode::kUnavailable, "down"));

  EXPECT_THAT(script_.verbs, ElementsAre(GetParam()));
}

TEST_F(RetryingConnectionTest, CallsThatMayBeMadeTwiceAreRepeated) {
  const std::optional<CallId> call_id = CallId{"c", 7};
  script_.statuses.clear();
  for (int i = 0; i < 9; ++i) {
    script_.statuses.insert(script_.statuses.end(),
                            {absl::UnavailableError("down"), absl::OkStatus()});
  }

  EXPECT_THAT(connection_.Call(PushRequest{.call_id = call_id}, {}), IsOk());
  EXPECT_THAT(connection_.Call(InitRequest{.call_id = call_id}, {}), IsOk());
  EXPECT_THAT(connection_.Call(PushPullRequest{{.call_id = call_id}}, {}),
              IsOk());
  EXPECT_THAT(connection_.Call(SetStateRequest{.call_id = call_id}, {}),
              IsOk());
  DeleteRequest deletion;
  SetCallId(*call_id, deletion);
  EXPECT_THAT(connection_.Call(deletion, {}), IsOk());
  CreateNamespaceRequest create;
  SetCallId(*call_id, create);
  EXPECT_THAT(connection_.Call(create, {}), IsOk());

  EXPECT_THAT(connection_.Call(InitRequest{.on_existing = OnExisting::kKeep}),
              IsOk());
  EXPECT_THAT(connection_.Call(testing::CreateOf("", {}, OnExisting::kKeep)),
              IsOk());
  deletion.clear_call_id();
  deletion.set_allow_missing(true);
  EXPECT_THAT(connection_.Call(deletion), IsOk());

  EXPECT_EQ(script_.verbs.size(), 18u);
  EXPECT_EQ(script_.last<PushRequest>().call_id->sequence, 7u);
  script_.statuses = {absl::UnavailableError("down")};
  EXPECT_THAT(
      connection_.Call(InitRequest{.on_existing = OnExisting::kReplace}),
      StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(RetryingConnectionTest, RepeatsEndBeforeTheTimeout) {
  script_.statuses.assign(1000, absl::UnavailableError("down"));

  EXPECT_THAT(connection_.Call(PushRequest{.call_id = CallId{"c", 7}},
                               {.timeout = absl::Seconds(5)}),
              StatusIs(absl::StatusCode::kUnavailable, "down"));

  EXPECT_LT(now_, absl::Seconds(5));
  EXPECT_GT(script_.timeouts.back(), absl::ZeroDuration());
}

TEST_F(RetryingConnectionTest, RepeatsEndBeforeServersForget) {
  script_.statuses.assign(10'000, absl::UnavailableError("down"));

  EXPECT_THAT(connection_.Call(PushRequest{.call_id = CallId{"c", 7}},
                               {.timeout = absl::InfiniteDuration()}),
              StatusIs(absl::StatusCode::kUnavailable, "down"));

  EXPECT_LT(now_, absl::Minutes(15));
  EXPECT_EQ(script_.timeouts.back(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace tensorkv
