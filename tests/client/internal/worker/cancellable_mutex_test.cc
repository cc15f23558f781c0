#include "client/internal/worker/cancellable_mutex.h"

#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(CancellableMutexTest, IsLockedByOneAtATime) {
  CancellableMutex mutex;
  int num_locked = 0;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) {
      const MutexLock lock(&mutex);
      ++num_locked;
    }
  });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(mutex.LockUnlessCancelled(std::make_shared<Canceller>()));
    ++num_locked;
    mutex.unlock();
  }
  other.join();

  EXPECT_EQ(num_locked, 2000);
}

TEST(CancellableMutexTest, CancelledWaitEndsWithoutTheLock) {
  CancellableMutex mutex;
  const auto canceller = std::make_shared<Canceller>();
  const MutexLock lock(&mutex);
  bool has_locked = true;
  std::thread waiter(
      [&] { has_locked = mutex.LockUnlessCancelled(canceller); });

  canceller->Cancel();
  waiter.join();

  EXPECT_FALSE(has_locked);
}

TEST(CancellableMutexTest, WaitEndsWithItsTimeout) {
  CancellableMutex mutex;
  const MutexLock lock(&mutex);
  bool has_locked = true;

  std::thread([&] {
    has_locked = mutex.LockUnlessCancelled(nullptr, absl::Milliseconds(1));
  }).join();

  EXPECT_FALSE(has_locked);
}

}  // namespace
}  // namespace tensorkv
