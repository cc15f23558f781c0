#include "base/task_pool.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

TEST(TaskPoolTest, TasksOfOneOwnerBeginInTheirOrder) {
  std::vector<int> ran;

  {
    TaskPool pool(2);  // of which an owner has one
    for (int i = 0; i < 3; ++i) {
      pool.Submit("a", [&ran, i] { ran.push_back(i); });
    }
  }

  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
}

TEST(TaskPoolTest, NoOwnerHasAllThreads) {
  Notification release;
  Notification other_ran;
  TaskPool pool(3);
  for (int i = 0; i < 10; ++i) {
    pool.Submit("greedy", [&] { release.WaitForNotification(); });
  }

  pool.Submit("other", [&] { other_ran.Notify(); });

  other_ran.WaitForNotification();
  release.Notify();
}

TEST(TaskPoolTest, OwnersTakeTurns) {
  std::vector<int> ran;
  Notification all_there;
  Notification may_begin;
  {
    TaskPool pool(2);
    // Leaves one thread, so that the order is that of the queues.
    pool.Submit("holds the other thread",
                [&] { all_there.WaitForNotification(); });
    pool.Submit("a", [&] { may_begin.WaitForNotification(); });
    for (int i = 1; i <= 2; ++i) {
      pool.Submit("a", [&ran, i] { ran.push_back(i); });
    }
    pool.Submit("b", [&ran] { ran.push_back(10); });
    pool.Submit("b", [&] {
      ran.push_back(20);
      all_there.Notify();
    });
    may_begin.Notify();
    all_there.WaitForNotification();
  }

  EXPECT_THAT(ran, ElementsAre(10, 1, 20, 2));
}

TEST(TaskPoolTest, StopRunsWhatTasksSubmit) {
  bool ran = false;
  TaskPool pool(2);
  pool.Submit("a", [&] { pool.Submit("b", [&ran] { ran = true; }); });

  pool.Stop();

  EXPECT_TRUE(ran);
}

TEST(TaskPoolTest, LeavesATaskAloneOnceItHasStopped) {
  TaskPool pool(2);
  pool.Stop();
  bool ran = false;
  TaskPool::Task task = [&ran] { ran = true; };

  EXPECT_FALSE(pool.Submit("a", std::move(task)));
  std::move(task)();

  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tensorkv
