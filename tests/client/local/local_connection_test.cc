#include "client/local/local_connection.h"

#include <memory>
#include <thread>

#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasTensor;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What each verb does is tested by the contract suite, which runs on this
// connection too (tests/contracts).

TEST(LocalConnectionTest, ClientPushesAndPullsInProcess) {
  Client client(std::make_unique<LocalConnection>(), {.target = "local"});

  ASSERT_OK(client.Init("w", Full({2, 3}, 2)));
  ASSERT_OK(client.SetRule({.name = "accumulate"}));
  ASSERT_OK(client.Push("w", Full({2, 3}, 1)));

  EXPECT_THAT(client.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST(LocalConnectionTest, WaitsEndAtTheTimeout) {
  Client client(std::make_unique<LocalConnection>(),
                {.target = "local", .timeout = absl::Milliseconds(1)});
  ASSERT_OK(client.Init("w", Full({1}, 0)));

  EXPECT_THAT(client.Pull("w", /*min_version=*/2),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("Pull from local")));
}

TEST(LocalConnectionTest, CallAfterTheCallerHasCancelledIsNotMade) {
  Client client(std::make_unique<LocalConnection>(), {.target = "local"});
  const auto canceller = std::make_shared<Canceller>();
  Client cancellable = client.WithCanceller(canceller);
  ASSERT_OK(cancellable.Init("w", Full({1}, 3)));

  canceller->Cancel();

  EXPECT_THAT(cancellable.Push("w", Full({1}, 5)),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(client.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST(LocalConnectionTest, BudgetIsThatOfTheOptions) {
  Client client(std::make_unique<LocalConnection>(LocalConnectionOptions{
                    .store = {.budget_bytes = 1000}, .num_threads = 1}),
                {.target = "local"});

  EXPECT_THAT(client.Init("w", Full({1000}, 0)),
              StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_OK_AND_ASSIGN(const ServerStatus status, client.DescribeServer());
  EXPECT_EQ(status.budget_bytes(), 1000);
  EXPECT_EQ(status.used_bytes(), 0);
  EXPECT_THAT(status.devices(), ElementsAre("cpu"));
}

// All calls of a client have one client id, by which a worker is known that has
// not joined.
TEST(LocalConnectionTest, StepIsRepeatedWhicheverCallsWereUnderWayBeside) {
  Client worker(std::make_unique<LocalConnection>(),
                {.target = "local", .name_space = "n", .rank = 0});
  ASSERT_OK(
      worker.CreateNamespace("n", {.mode = Mode::kSync, .num_workers = 2}));
  ASSERT_OK(worker.Init("a", Full({1}, 0)));
  ASSERT_OK(worker.Init("b", Full({1}, 0)));
  const auto canceller = std::make_shared<Canceller>();
  Background waiting([&] {
    Client cancellable = worker.WithCanceller(canceller);
    return cancellable.PushPull("b", Full({1}, 1), {.step = 1}).status();
  });
  while (worker.DescribeNamespace("n")->calls_waiting() == 0) {
    std::this_thread::yield();
  }
  Background first(
      [&] { return worker.Push("a", Full({1}, 1), {.step = 1}).status(); });
  ASSERT_OK(first.Result());
  canceller->Cancel();
  EXPECT_THAT(waiting.Result(), StatusIs(absl::StatusCode::kCancelled));

  ASSERT_OK_AND_ASSIGN(const PushResult again,
                       worker.Push("a", Full({1}, 1), {.step = 1}));

  EXPECT_TRUE(again.repeated);
}

TEST(LocalConnectionTest, NamespacesCanBeCreatedAndDeleted) {
  Client client(std::make_unique<LocalConnection>(), {.target = "local"});

  ASSERT_OK(client.CreateNamespace("n", {}));
  ASSERT_OK_AND_ASSIGN(const auto namespaces, client.ListNamespaces());
  EXPECT_EQ(namespaces.size(), 2);

  ASSERT_OK(client.DeleteNamespace("n"));
  EXPECT_THAT(client.DescribeNamespace("n"),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace tensorkv
