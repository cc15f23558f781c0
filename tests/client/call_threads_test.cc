#include "client/call_threads.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

TEST(CallThreadsTest, TasksRunAtTheSameTime) {
  std::vector<Notification> begun(3);
  Notification all_ended;
  std::atomic<int> num_left = 3;
  CallThreads threads(3);

  for (int i = 0; i < 3; ++i) {
    threads.Run([&, i] {
      begun[i].Notify();
      for (Notification& each : begun) each.WaitForNotification();
      if (--num_left == 0) all_ended.Notify();
    });
  }

  all_ended.WaitForNotification();
}

TEST(CallThreadsTest, OneThreadRunsTasksInTheirOrder) {
  std::vector<int> order;
  Notification has_ended;
  CallThreads threads(1);

  for (int i = 0; i < 3; ++i) {
    threads.Run([&, i] { order.push_back(i); });
  }
  threads.Run([&] { has_ended.Notify(); });

  has_ended.WaitForNotification();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(CallThreadsTest, NoMoreTasksRunAtATimeThanThreads) {
  constexpr int kNumTasks = 500;
  std::atomic<int> num_running = 0, most_running = 0, num_ended = 0;
  Notification has_ended;
  CallThreads threads(2);

  for (int i = 0; i < kNumTasks; ++i) {
    threads.Run([&] {
      const int now = ++num_running;
      most_running = std::max<int>(most_running, now);
      std::this_thread::yield();
      --num_running;
      if (++num_ended == kNumTasks) has_ended.Notify();
    });
  }

  has_ended.WaitForNotification();
  EXPECT_LE(most_running, 2);
}

TEST(CallThreadsTest, TasksOutliveIt) {
  auto threads = std::make_unique<CallThreads>(1);
  Notification may_go_on;
  auto has_ended = std::make_shared<Notification>();

  threads->Run([&] { may_go_on.WaitForNotification(); });
  threads->Run([has_ended] { has_ended->Notify(); });
  threads = nullptr;
  may_go_on.Notify();

  has_ended->WaitForNotification();
}

}  // namespace
}  // namespace tensorkv
