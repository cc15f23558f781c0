// Keys that are fenced for a move: what the move waits for, and what it does
// not wait for.

#include <string>
#include <vector>

#include "contract/placement.h"
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

// "k" moves without a round that a group has left open which nobody is left of.
class DesertedKeyTest : public KeyMovesTest {
 protected:
  // The group of two has closed step 1 of "w" alone, and a has gone on to step
  // 2 of it, before both are lost.
  void Desert() {
    CreateSync(2);
    AddKey("k");  // of another partition than "w"
    const Worker a = Join("a");
    const Worker b = Join("b");
    ASSERT_OK(Push("w", a, 1));
    ASSERT_OK(Push("k", a, 1));
    ASSERT_OK(Push("w", b, 1));
    ASSERT_OK(Push("w", a, 2));
    LoseAllBut({});
  }
  // `meanwhile` runs where the key is at neither server.
  void Move(absl::FunctionRef<void()> meanwhile) {
    const PartitionSet set = {.num_partitions = 2,
                              .partitions = {PartitionOf("n", "k", 2)}};
    ASSERT_OK(store_.Fence(
        set, [] { return absl::CancelledError("a round is open"); }));
    ASSERT_OK(store_.TakeSnapshotOfFenced(sink_));
    store_.FenceReads();
    store_.GiveAway();
    meanwhile();
    const auto adoption = store_.StartAdoption(set);
    for (const NamespaceSnapshot& each : sink_.namespaces) {
      if (each.name != "n") continue;
      ASSERT_OK(adoption->Begin(each));
    }
    ASSERT_OK(adoption->Add(sink_.keys));
    ASSERT_OK(adoption->Commit());
    store_.Own({.num_partitions = 2, .partitions = {0, 1}});
  }
  // Both do as they are told, one after the other.
  void GoOn() {
    for (const char* const name : {"a", "b"}) {
      const absl::StatusOr<JoinReply> told = TryJoin(name);
      ASSERT_OK(told);
      for (Step step = told->next_step(); step <= 2; ++step) {
        EXPECT_OK(Push("w", WorkerOf(told->worker()), step));
        EXPECT_OK(Push("k", WorkerOf(told->worker()), step));
      }
    }
    EXPECT_EQ(Describe().rounds_open(), 0u);
  }
  absl::Status Push(const std::string& key, const Worker& worker, Step step) {
    PushRequest request = ScriptedStoreTest::PushOf(key, 1);
    request.name_space = "n";
    request.worker = worker;
    request.step = step;
    return ScriptedStoreTest::Push(std::move(request)).status();
  }
};

TEST_F(DesertedKeyTest,
       StepThatItLacksComesBeforeALaterOneThatMustBePushedAgain) {
  Desert();
  Move([] {});

  GoOn();
}

TEST_F(DesertedKeyTest, WhoWasToldALaterStepBeforeItArrivedJoinsAgain) {
  Desert();
  Worker a;
  Move([&] { a = Join("a"); });

  EXPECT_THAT(Push("k", a, 2), HasReason(Reason::kLeaseLost));
  GoOn();
}

}  // namespace namespace_members_test
}  // namespace tensorkv
