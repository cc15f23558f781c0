#include "client/internal/calls/task_mutex.h"

#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

class TaskMutexTest : public ::testing::TestWithParam<bool> {
 protected:
  // Where what has to block runs; null: tasks block.
  CallThreads* threads() { return GetParam() ? &threads_ : nullptr; }

  absl::Status Lock(absl::Duration timeout = absl::InfiniteDuration(),
                    const std::shared_ptr<Canceller>& canceller = nullptr) {
    if (!GetParam()) return mutex_.Lock(timeout, canceller, nullptr).Run();
    const auto ended = std::make_shared<Notification>();
    absl::Status locked;
    StartTask(mutex_.Lock(timeout, canceller, threads()),
              [&locked, ended](absl::Status status) {
                locked = status;
                ended->Notify();
              });
    ended->WaitForNotification();
    return locked;
  }

  CallThreads threads_{1};
  TaskMutex mutex_;
};

TEST_P(TaskMutexTest, IsHeldByOneAtATime) {
  int num_locked = 0;
  const auto lock = [&] {
    for (int i = 0; i < 200; ++i) {
      ASSERT_OK(Lock());
      ++num_locked;
      mutex_.Unlock();
    }
  };
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(lock);
  for (std::thread& other : others) other.join();

  EXPECT_EQ(num_locked, 600);
  EXPECT_FALSE(mutex_.is_locked());
}

TEST_P(TaskMutexTest, WaitEndsWhenItIsCancelledOrItsTimeIsOver) {
  ASSERT_OK(Lock());
  const auto canceller = std::make_shared<Canceller>();
  absl::Status status;
  std::thread waiter(
      [&] { status = Lock(absl::InfiniteDuration(), canceller); });
  canceller->Cancel();
  waiter.join();

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Lock(absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(mutex_.is_locked());
  mutex_.Unlock();
  EXPECT_OK(Lock());
}

INSTANTIATE_TEST_SUITE_P(BlockingOrNot, TaskMutexTest, ::testing::Bool());

}  // namespace
}  // namespace tensorkv
