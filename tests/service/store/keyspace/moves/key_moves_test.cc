// Keys that are fenced for a move: what the move waits for, and what it does
// not wait for.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/service/store/keyspace/workers/workers_of_store.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace namespace_members_test {

using ::absl::StatusCode;
using ::tensorkv::testing::Background;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

class KeyMovesTest : public WorkersOfStoreTest {
 protected:
  // Fences all keys; `while_open` runs once if rounds keep the move waiting.
  absl::Status Fence(absl::FunctionRef<void()> while_open) {
    int num_looks = 0;
    return store_.Fence({.num_partitions = 1, .partitions = {0}}, [&] {
      if (++num_looks > 1) return absl::CancelledError("a round is open");
      while_open();
      return absl::OkStatus();
    });
  }

  testing::KeptSnapshot sink_;
};

TEST_F(KeyMovesTest, FencedKeyTakesAllStepsThatMustBePushedAgain) {
  CreateSync(2);
  const Worker a = Join("a");
  Join("b");
  for (Step step = 1; step <= 3; ++step) ASSERT_OK(Push(a, step));
  LoseAllBut({a});  // a must push all three again
  const Worker b = Join("b");

  ASSERT_OK(Fence([&] {
    for (Step step = 1; step <= 3; ++step) {
      EXPECT_OK(Push(a, step));
      EXPECT_OK(Push(b, step));
    }
    EXPECT_THAT(Push(a, 4), HasReason(Reason::kKeyMoving));
  }));

  EXPECT_OK(store_.TakeSnapshotOfFenced(sink_));
  EXPECT_EQ(Value(), 6);
  store_.Unfence();
}

TEST_F(KeyMovesTest, MoveDoesNotWaitForAChangeOfRules) {
  CreateSync(1);
  const Worker a = Join("a");
  const PartitionSet all = {.num_partitions = 1, .partitions = {0}};
  ASSERT_OK(store_.TakeChanges(all, sink_));
  ASSERT_OK(Fence([] {}));
  Notification allocates;
  Notification may_go_on;
  backend_.WhenAllocating([&] {
    allocates.Notify();
    may_go_on.WaitForNotification();
  });
  Background change([&] {
    return testing::MakeNow(store_, testing::SetRuleOf("adam", "*", "n"), {});
  });
  allocates.WaitForNotification();

  EXPECT_THAT(store_.TakeSnapshotOfFenced(sink_),
              StatusIs(StatusCode::kUnavailable, HasSubstr("rules change")));

  may_go_on.Notify();
  EXPECT_OK(change.Result());
  EXPECT_THAT(Push(a, 1), HasReason(Reason::kKeyMoving));
  EXPECT_OK(store_.TakeChanges(all, sink_));
  EXPECT_OK(Push(a, 1));
  testing::KeptSnapshot last;
  ASSERT_OK(Fence([] {}));
  EXPECT_OK(store_.TakeSnapshotOfFenced(last));
  EXPECT_EQ(last.keys.size(), 1u);
  EXPECT_THAT(last.namespaces,
              ::testing::Each(::testing::Field(
                  &NamespaceSnapshot::has_only_changes, true)));
  store_.Unfence();
}

}  // namespace namespace_members_test
}  // namespace tensorkv
