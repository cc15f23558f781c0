// Groups that go on from a snapshot: nobody is told a step that others have no
// part in, or cannot come to.

#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/service/store/keyspace/workers/workers_of_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace namespace_members_test {

class RestoredGroupsTest : public WorkersOfStoreTest {
 protected:
  // Has three workers join, of whom b goes two steps ahead.
  void HaveOneGoAhead() {
    Create({.mode = Mode::kSync, .num_workers = 2, .max_workers = 3});
    a_ = Join("a");
    b_ = Join("b");
    const Worker c = Join("c");
    for (const Worker& each : {a_, b_, c}) ASSERT_OK(Push(each, 1));
    ASSERT_OK(Push(b_, 2));
    ASSERT_OK(Push(b_, 3));
  }
  // What b has begun fails, and then nobody is there to push it again.
  void LoseAllButA() {
    LoseAllBut({a_, b_});
    ASSERT_OK(KeepAlive(a_));
    ASSERT_OK(KeepAlive(b_));
    LoseAllBut({a_});
  }

  void SaveAndRestore(const std::function<void()>& meanwhile) {
    testing::KeptSnapshot saved([&](const NamespaceSnapshot&) {
      meanwhile();
      return absl::OkStatus();
    });
    ASSERT_OK(store_.TakeSnapshot({"n"}, saved));
    const auto restoration = store_.StartRestoration(OnExisting::kReplace);
    ASSERT_OK(restoration->Begin(saved.namespaces[0]));
    ASSERT_OK(restoration->Add(std::move(saved.keys)));
    ASSERT_OK(restoration->Commit());
  }

  // Each does what it is told, one after the other.
  void GoOn(const std::vector<std::string>& names, Step last) {
    std::vector<JoinReply> told;
    for (const std::string& name : names) told.push_back(*TryJoin(name));
    for (const JoinReply& each : told) {
      for (Step step = each.next_step(); step <= last; ++step) {
        EXPECT_OK(Push(WorkerOf(each.worker()), step));
      }
    }
    EXPECT_EQ(Describe().rounds_open(), 0u);
  }

  Worker a_;
  Worker b_;
};

TEST_F(RestoredGroupsTest, WhoWasLostBeforeGoesOnAfterTheOthers) {
  HaveOneGoAhead();
  LoseAllButA();

  SaveAndRestore([] {});

  GoOn({"b", "a"}, 3);
}

TEST_F(RestoredGroupsTest, WhoIsLostMeanwhilePushesAgainWhatHasFailed) {
  HaveOneGoAhead();

  SaveAndRestore([this] { LoseAllButA(); });

  GoOn({"b", "a"}, 3);
}

}  // namespace namespace_members_test
}  // namespace tensorkv
