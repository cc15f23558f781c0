#include "client/internal/worker/push_order.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

std::vector<PushEntry> EntriesOf(const std::string& keys) {
  std::vector<PushEntry> entries(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) entries[i].key = keys[i];
  return entries;
}

class PushOrderTest : public ::testing::Test {
 protected:
  PushOrder::Place Enter(const std::string& keys) {
    return order_.Enter(EntriesOf(keys));
  }
  // Returns whether the turn of the push has come.
  static bool HasTurn(const PushOrder::Place& place) {
    return place.AwaitTurn(absl::ZeroDuration(), nullptr, nullptr).Run().ok();
  }

  PushOrder order_;
};

TEST_F(PushOrderTest, PushesOfOtherKeysDoNotWait) {
  const PushOrder::Place first = Enter("ab");
  const PushOrder::Place second = Enter("cd");

  EXPECT_TRUE(HasTurn(first));
  EXPECT_TRUE(HasTurn(second));
  EXPECT_FALSE(order_.has_queued());
}

TEST_F(PushOrderTest, PushesOfAKeyHaveTheirTurnsInOrder) {
  std::optional<PushOrder::Place> first = Enter("ab");
  std::optional<PushOrder::Place> second = Enter("bc");
  PushOrder::Place third = Enter("c");
  const PushOrder::Place fourth = Enter("a");

  EXPECT_TRUE(order_.has_queued());
  EXPECT_FALSE(HasTurn(*second));
  EXPECT_FALSE(HasTurn(fourth));
  first.reset();
  EXPECT_TRUE(HasTurn(*second));
  EXPECT_TRUE(HasTurn(fourth));
  EXPECT_FALSE(HasTurn(third));
  second.reset();
  EXPECT_TRUE(HasTurn(third));
  third.Leave();
  EXPECT_TRUE(HasTurn(Enter("bc")));
}

TEST_F(PushOrderTest, WaitEndsWithThePushBeforeOrWhenItIsCancelled) {
  std::optional<PushOrder::Place> first = Enter("a");
  const PushOrder::Place second = Enter("a");
  const auto canceller = std::make_shared<Canceller>();
  absl::Status cancelled;
  std::thread given_up([&] {
    cancelled =
        second.AwaitTurn(absl::InfiniteDuration(), canceller, nullptr).Run();
  });
  canceller->Cancel();
  given_up.join();
  absl::Status came = absl::UnknownError("");
  std::thread waiter([&] {
    came = second.AwaitTurn(absl::InfiniteDuration(), nullptr, nullptr).Run();
  });
  first.reset();
  waiter.join();

  EXPECT_THAT(cancelled, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_OK(came);
}

}  // namespace
}  // namespace tensorkv
