#include "client/change_watch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/local/local_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Background;
using ::testing::ElementsAre;
using testing::Full;
using ::testing::IsEmpty;
using testing::IsOkAndHolds;
using testing::StatusIs;

class ChangeWatchTest : public ::testing::Test {
 protected:
  ChangeWatchTest()
      : client_(std::make_unique<LocalConnection>(), ClientOptions()) {}

  void Init(const std::string& key) {
    ASSERT_OK(client_.Init(key, Full({2}, 1)));
  }
  static std::vector<std::string> KeysOf(
      const absl::StatusOr<std::vector<v1::Change>>& changes) {
    EXPECT_OK(changes.status());
    std::vector<std::string> keys;
    if (!changes.ok()) return keys;
    for (const v1::Change& each : *changes) keys.push_back(each.key());
    return keys;
  }

  Client client_;
};

TEST_F(ChangeWatchTest, TellsWhatHasChangedSinceItBegan) {
  Init("before");
  ChangeWatch watch(client_, {.interval = absl::ZeroDuration()});
  ASSERT_OK(watch.Begin());
  Init("a");

  EXPECT_THAT(KeysOf(watch.Next(absl::Seconds(20))), ElementsAre("a"));
  EXPECT_THAT(watch.Next(absl::Milliseconds(5)), IsOkAndHolds(IsEmpty()));
  Init("b");
  EXPECT_THAT(KeysOf(watch.Next(absl::Seconds(20))), ElementsAre("b"));
}

TEST_F(ChangeWatchTest, WaitsForAKey) {
  ChangeWatch watch(client_, {.key = "k", .initial = true});
  ASSERT_OK(watch.Begin());
  Background wait([&] { return KeysOf(watch.Next(absl::Seconds(20))); });

  Init("k");

  EXPECT_THAT(wait.Result(), ElementsAre("k"));
  ChangeWatch late(client_, {.key = "k", .initial = true});
  EXPECT_THAT(KeysOf(late.Next(absl::ZeroDuration())), ElementsAre("k"));
}

TEST_F(ChangeWatchTest, IsFollowedUntilItHasToldEnough) {
  Init("a");
  ChangeWatch watch(client_, {.prefix = "", .initial = true});
  std::string last;

  ASSERT_OK(watch.Follow([&](const std::vector<v1::Change>& changes) {
    last = changes.back().key();
    if (last == "a") Init("b");
    return last != "b";
  }));

  EXPECT_EQ(last, "b");
}

TEST_F(ChangeWatchTest, GoesOnFromAToken) {
  ChangeWatch watch(client_, {.interval = absl::ZeroDuration()});
  ASSERT_OK(watch.Begin());
  Init("a");

  ChangeWatch other(client_, {.token = watch.token()});

  EXPECT_THAT(KeysOf(other.Next(absl::Seconds(20))), ElementsAre("a"));
}

// Whoever stores the token of a watch that has begun, and begins again with it,
// is told all.
TEST_F(ChangeWatchTest, HasNoTokenOfWhatItHasYetToTell) {
  Init("a");
  ChangeWatch watch(client_, {.prefix = "", .initial = true});
  ASSERT_OK(watch.Begin());
  EXPECT_EQ(watch.token(), "");

  EXPECT_THAT(KeysOf(watch.Next(absl::Seconds(20))), ElementsAre("a"));

  EXPECT_NE(watch.token(), "");
}

TEST_F(ChangeWatchTest, TellsWhoDoesNotWait) {
  ChangeWatch watch(client_, {});
  ASSERT_OK(watch.Begin());
  Init("a");
  std::vector<std::string> keys;

  while (keys.empty()) keys = KeysOf(watch.Next(absl::ZeroDuration()));

  EXPECT_THAT(keys, ElementsAre("a"));
}

TEST_F(ChangeWatchTest, IsOfAKeyOrAPrefix) {
  ChangeWatch watch(client_, {.prefix = "a", .key = "b"});

  EXPECT_THAT(watch.Begin(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(watch.Next(absl::ZeroDuration()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ChangeWatchTest, EndsByTheCancellerOfItsClient) {
  const auto canceller = std::make_shared<Canceller>();
  Client client = client_.WithCanceller(canceller);
  ChangeWatch watch(client, {});
  ASSERT_OK(watch.Begin());
  Background wait([&] { return watch.Next(absl::Seconds(20)).status(); });

  canceller->Cancel();

  EXPECT_THAT(wait.Result(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace tensorkv
