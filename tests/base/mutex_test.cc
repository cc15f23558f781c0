#include "base/mutex.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

template <typename M>
class EveryMutexTest : public ::testing::Test {};

using EveryMutex = ::testing::Types<Mutex, FairMutex>;
TYPED_TEST_SUITE(EveryMutexTest, EveryMutex);

TYPED_TEST(EveryMutexTest, ExcludesOtherThreads) {
  constexpr int kNumThreads = 4;
  constexpr int kNumIncrements = 1000;
  TypeParam mutex;
  int count = 0;
  std::vector<std::thread> threads;

  for (int i = 0; i < kNumThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kNumIncrements; ++j) {
        MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(count, kNumThreads * kNumIncrements);
}

TEST(CondVarTest, SignalAllWakesEveryWaiter) {
  constexpr int kNumWaiters = 3;
  Mutex mutex;
  CondVar changed;
  int num_waiting = 0;
  bool is_ready = false;
  std::vector<std::thread> waiters;
  for (int i = 0; i < kNumWaiters; ++i) {
    waiters.emplace_back([&] {
      MutexLock lock(&mutex);
      ++num_waiting;
      changed.SignalAll();
      while (!is_ready) changed.Wait(&mutex);
    });
  }

  mutex.lock();
  while (num_waiting < kNumWaiters) changed.Wait(&mutex);
  is_ready = true;
  changed.SignalAll();
  mutex.unlock();

  for (std::thread& waiter : waiters) waiter.join();
}

TEST(CondVarTest, WaitWithTimeoutReportsThatTheTimeHasPassed) {
  Mutex mutex;
  CondVar never_signalled;

  mutex.lock();
  bool has_timed_out = false;
  // A wait may also end spuriously.
  while (!has_timed_out) {
    has_timed_out =
        never_signalled.WaitWithTimeout(&mutex, absl::Milliseconds(1));
  }
  mutex.unlock();

  EXPECT_TRUE(has_timed_out);
}

TEST(CondVarTest, WaitWithInfiniteTimeoutEndsBySignal) {
  Mutex mutex;
  CondVar changed;
  bool is_ready = false;
  bool has_timed_out = false;

  mutex.lock();
  std::thread signaller([&] {
    MutexLock lock(&mutex);
    is_ready = true;
    changed.Signal();
  });
  while (!is_ready && !has_timed_out) {
    has_timed_out = changed.WaitWithTimeout(&mutex, absl::InfiniteDuration());
  }
  mutex.unlock();

  signaller.join();
  EXPECT_FALSE(has_timed_out);
}

TEST(NotificationTest, StaysNotified) {
  Notification notification;

  notification.Notify();
  notification.Notify();

  notification.WaitForNotification();
  EXPECT_TRUE(notification.HasBeenNotified());
}

TEST(NotificationTest, MakesEarlierWritesVisible) {
  Notification notification;
  int written = 0;
  std::thread writer([&] {
    written = 7;
    notification.Notify();
  });

  notification.WaitForNotification();

  EXPECT_EQ(written, 7);
  writer.join();
}

}  // namespace
}  // namespace tensorkv
