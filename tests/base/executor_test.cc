#include "base/executor.h"

#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

TEST(ExecutorTest, RunsTasksInTheirOrder) {
  std::vector<int> ran;

  {
    Executor executor;
    for (int i = 0; i < 3; ++i)
      executor.Submit([&ran, i] { ran.push_back(i); });
  }

  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
}

TEST(ExecutorTest, RunsOnAnotherThread) {
  Executor executor;
  std::thread::id runner;
  Notification done;

  executor.Submit([&] {
    runner = std::this_thread::get_id();
    done.Notify();
  });
  done.WaitForNotification();

  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST(ExecutorTest, DestructorRunsWhatTasksSubmit) {
  bool ran = false;

  {
    Executor executor;
    executor.Submit([&] { executor.Submit([&ran] { ran = true; }); });
  }

  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tensorkv
