// Keys that are held for a move: what the move waits for, and what it passes
// over.

#include <algorithm>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/snapshot.h"
#include "tests/service/store/keyspace/workers_of_store.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace namespace_members_test {

using ::absl::StatusCode;
using ::tensorkv::testing::Background;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

class NoSink final : public SnapshotSink {
 public:
  absl::Status Begin(NamespaceSnapshot) override { return absl::OkStatus(); }
  absl::Status Add(KeySnapshot) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
  void Paused(absl::Duration) override {}
};

class KeyMovesTest : public WorkersOfStoreTest {
 protected:
  // Holds all keys; `while_open` runs once if rounds keep the move waiting.
  absl::Status Hold(absl::FunctionRef<void()> while_open) {
    int num_looks = 0;
    return store_.Fence({.num_partitions = 1, .partitions = {0}}, [&] {
      if (++num_looks > 1) return absl::CancelledError("a round is open");
      while_open();
      return absl::OkStatus();
    });
  }

  NoSink sink_;
};

TEST_F(KeyMovesTest, HeldKeyTakesAllStepsThatAreToBePushedAgain) {
  CreateSync(2);
  const Worker a = Join("a");
  Join("b");
  for (Step step = 1; step <= 3; ++step) ASSERT_OK(Push(a, step));
  LoseAllBut({a});  // a must push all three again
  const Worker b = Join("b");

  ASSERT_OK(Hold([&] {
    for (Step step = 1; step <= 3; ++step) {
      EXPECT_OK(Push(a, step));
      EXPECT_OK(Push(b, step));
    }
    EXPECT_THAT(Push(a, 4), HasReason(Reason::kKeyMoving));
  }));

  EXPECT_OK(store_.TakeSnapshotOfFenced(sink_));
  EXPECT_EQ(Value(), 6);
  store_.Release();
}

TEST_F(KeyMovesTest, WhoJoinsMeanwhileDoesNotKeepADesertedNamespace) {
  CreateSync(2);
  const Worker a = Join("a");
  Join("b");
  ASSERT_OK(Push(a, 1));
  LoseAllBut({});
  ASSERT_OK(Hold([] { ADD_FAILURE() << "nobody closes its round"; }));

  ASSERT_OK_AND_ASSIGN(const JoinReply reply, TryJoin("a"));

  EXPECT_EQ(reply.next_step, 1u);
  EXPECT_OK(store_.TakeSnapshotOfFenced(sink_));
  store_.Release();
}

// Else the next attempt would take a group that has come back for deserted.
TEST_F(KeyMovesTest, NextMoveWaitsForThoseWhoHaveCome) {
  CreateSync(1);
  const Worker a = Join("a");
  backend_.FailApply(absl::ResourceExhaustedError("no memory"));
  ASSERT_OK(Push(a, 1));
  LoseAllBut({});
  ASSERT_OK(Hold([] { ADD_FAILURE() << "nobody closes its round"; }));
  store_.Release();
  Join("a");

  EXPECT_THAT(Hold([] {}), StatusIs(StatusCode::kCancelled));
  store_.Release();
}

TEST_F(KeyMovesTest, MoveDoesNotWaitForAChangeOfRules) {
  CreateSync(1);
  ASSERT_OK(Hold([] {}));
  Notification allocates;
  Notification may_go_on;
  backend_.WhenAllocating([&] {
    allocates.Notify();
    may_go_on.WaitForNotification();
  });
  Background change([&] {
    return store_.SetRule({.name_space = "n",
                           .key_pattern = "*",
                           .rule = *ParseRuleSpec("momentum")},
                          {});
  });
  allocates.WaitForNotification();

  EXPECT_THAT(store_.TakeSnapshotOfFenced(sink_),
              StatusIs(StatusCode::kUnavailable, HasSubstr("rules change")));

  may_go_on.Notify();
  EXPECT_OK(change.Result());
  EXPECT_OK(store_.TakeSnapshotOfFenced(sink_));
  store_.Release();
}

}  // namespace namespace_members_test
}  // namespace tensorkv
