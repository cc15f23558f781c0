#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::Each;

// How often each index was visited.
std::vector<int> Visits(ThreadPool& pool, size_t count) {
  std::vector<std::atomic<int>> visits(count);
  pool.ParallelFor(count, [&](size_t i) { ++visits[i]; });
  return {visits.begin(), visits.end()};
}

TEST(ThreadPoolTest, EveryIndexIsVisitedOnce) {
  ThreadPool pool(4);

  EXPECT_THAT(Visits(pool, 1000), Each(1));
  EXPECT_THAT(Visits(pool, 1), Each(1));
  EXPECT_THAT(Visits(pool, 0), Each(1));
}

TEST(ThreadPoolTest, OneThreadIsTheCaller) {
  ThreadPool pool(1);
  std::vector<std::thread::id> threads(10);

  pool.ParallelFor(10,
                   [&](size_t i) { threads[i] = std::this_thread::get_id(); });

  EXPECT_THAT(threads, Each(std::this_thread::get_id()));
}

TEST(ThreadPoolTest, LessThanOneThreadIsTheCaller) {
  ThreadPool pool(-1);

  EXPECT_THAT(Visits(pool, 10), Each(1));
}

TEST(ThreadPoolTest, IterationsRunAtTheSameTime) {
  Notification started[2];
  ThreadPool pool(2);

  // Each waits for the other: one thread alone would not come back.
  pool.ParallelFor(2, [&](size_t i) {
    started[i].Notify();
    started[1 - i].WaitForNotification();
  });

  EXPECT_TRUE(started[0].HasBeenNotified());
}

TEST(ThreadPoolTest, CallersDoNotWaitForOneAnother) {
  Notification first_started;
  Notification second_done;
  ThreadPool pool(2);

  // The first loop holds its thread and perhaps the worker until the second,
  // of another caller, is through.
  std::thread first([&] {
    pool.ParallelFor(2, [&](size_t) {
      if (!first_started.HasBeenNotified()) first_started.Notify();
      second_done.WaitForNotification();
    });
  });
  first_started.WaitForNotification();
  const std::vector<int> visits = Visits(pool, 100);
  second_done.Notify();
  first.join();

  EXPECT_THAT(visits, Each(1));
}

TEST(ThreadPoolTest, ManyCallersShareTheThreads) {
  ThreadPool pool(3);
  std::atomic<int> total = 0;

  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 200; ++loop) {
        pool.ParallelFor(5, [&](size_t) { ++total; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();

  EXPECT_EQ(total, 4 * 200 * 5);
}

}  // namespace
}  // namespace tensorkv
