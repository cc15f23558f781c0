// Calls of bounded namespaces, which wait for slower workers.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/keyspace/workers/workers_of_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace namespace_members_test {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

class BoundedTest : public WorkersOfStoreTest {
 protected:
  void CreateBounded(uint32_t num_workers, uint32_t staleness,
                     OnWorkerLoss on_loss = OnWorkerLoss::kFail) {
    Create({.mode = Mode::kBounded,
            .num_workers = num_workers,
            .staleness = staleness,
            .on_worker_loss = on_loss});
  }
};

TEST_F(BoundedTest, ReadWaitsForTheSlowest) {
  CreateBounded(2, 1);
  const Worker fast = {.rank = 0};
  const Worker slow = {.rank = 1};
  ASSERT_OK(Push(fast, 1));
  ASSERT_OK(Push(fast, 2));
  Inbox<PullReply> waiting;
  StartPull(fast, waiting);
  EXPECT_TRUE(waiting.is_empty());
  EXPECT_EQ(NumWaiting(WaitReason::kStaleness), 1u);
  EXPECT_EQ(Describe().slowest_lag(), 2u);

  ASSERT_OK(Push(slow, 1, 10));

  EXPECT_EQ(First(*waiting.Wait()), 12);
}

// A Pull counts the steps that its worker had reached when it came.
TEST_F(BoundedTest, ReadDoesNotWaitForStepsReachedMeanwhile) {
  CreateBounded(3, 0);
  ASSERT_OK(Push({.rank = 0}, 1));
  Inbox<PullReply> first;
  StartPull({.rank = 0}, first);
  Inbox<PushReply> second;
  store_.Push(PushOf({.rank = 0}, 2, 1), {}, second.Callback());

  ASSERT_OK(Push({.rank = 1}, 1));
  ASSERT_OK(Push({.rank = 2}, 1));

  EXPECT_OK(second.Wait());
  EXPECT_OK(first.Wait());
}

TEST_F(BoundedTest, WaitingPushCanBeCancelled) {
  CreateBounded(2, 0);
  ASSERT_OK(Push({.rank = 0}, 1));
  const auto cancellation = std::make_shared<Cancellation>();
  Inbox<PushReply> second;
  store_.Push(PushOf({.rank = 0}, 2, 100), {.cancellation = cancellation},
              second.Callback());

  cancellation->Cancel();

  EXPECT_THAT(second.Wait(), StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(Value(), 1);
}

TEST_F(BoundedTest, WaitingPushIsCountedWithTheSnapshotThatItTakes) {
  CreateBounded(2, 0);
  ASSERT_OK(Push({.rank = 0}, 1));
  PushRequest push = PushOf({.rank = 0}, 2, 100);
  push.publish_as.emplace().set_series("s");
  (*push.publish_as->mutable_metadata())["name"] = std::string(4000, 'm');
  const uint64_t before = Describe().memory().metadata();
  Inbox<PushReply> second;

  store_.Push(std::move(push), {}, second.Callback());

  EXPECT_GE(Describe().memory().metadata(), before + 4000);
  ASSERT_OK(Push({.rank = 1}, 1));
  EXPECT_OK(second.Wait());
}

TEST_F(BoundedTest, LossEndsWaitsForTheLost) {
  CreateBounded(2, 0);
  const Worker a = Join("a");
  Join("b");
  ASSERT_OK(Push(a, 1));
  Inbox<PullReply> waiting;
  StartPull(a, waiting);

  LoseAllBut({a});

  EXPECT_THAT(waiting.Wait(),
              StatusIs(StatusCode::kAborted, HasSubstr("rank 1 (\"b\") lost")));
}

TEST_F(BoundedTest, OthersDoNotWaitForTheLostWhereTheyMay) {
  CreateBounded(2, 0, OnWorkerLoss::kContinue);
  const Worker a = Join("a");
  Join("b");
  ASSERT_OK(Push(a, 1));
  Inbox<PullReply> waiting;
  StartPull(a, waiting);

  LoseAllBut({a});

  EXPECT_OK(waiting.Wait());
}

}  // namespace namespace_members_test
}  // namespace tensorkv
