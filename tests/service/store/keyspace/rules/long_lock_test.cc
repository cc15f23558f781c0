#include "service/store/keyspace/rules/long_lock.h"

#include <memory>
#include <optional>
#include <thread>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LongLockTest : public ::testing::Test {
 protected:
  // An attempt of a call; has an alarm once it waits, if its time is bounded.
  absl::Status Acquire(const CallContext& context) {
    return lock_.Acquire(context, alarms_).status();
  }
  // Returns once so many calls with a deadline wait.
  void AwaitAlarms(size_t count) {
    while (alarms_.num_pending() < count) std::this_thread::yield();
  }

  FakeAlarms alarms_;
  LongLock lock_{"n", "a checkpoint"};
};

TEST_F(LongLockTest, OneHasItAtATime) {
  std::optional<LongLock::Holder> first = lock_.TryAcquire();
  ASSERT_TRUE(first);

  EXPECT_FALSE(lock_.TryAcquire());
  first.reset();
  EXPECT_TRUE(lock_.TryAcquire());
}

TEST_F(LongLockTest, GoesToWhoeverWaits) {
  LongLock::Holder first = lock_.Acquire();
  Background call([&] { return Acquire({.timeout = absl::Seconds(9)}); });
  AwaitAlarms(1);

  first.Release();

  EXPECT_OK(call.Result());
  EXPECT_EQ(alarms_.num_pending(), 0u);
  EXPECT_TRUE(lock_.TryAcquire());
}

TEST_F(LongLockTest, WaitEndsWithTheTimeOfItsCall) {
  const LongLock::Holder first = lock_.Acquire();
  Background call([&] { return Acquire({.timeout = absl::Seconds(2)}); });
  AwaitAlarms(1);

  alarms_.Advance(absl::Seconds(2));

  EXPECT_THAT(
      call.Result(),
      AllOf(StatusIs(absl::StatusCode::kDeadlineExceeded,
                     HasSubstr("namespace \"n\": waited 2s for the end of a "
                               "checkpoint")),
            HasReason(Reason::kWaitEnded)));
}

TEST_F(LongLockTest, WaitEndsWithItsCaller) {
  const LongLock::Holder first = lock_.Acquire();
  const auto cancellation = std::make_shared<Cancellation>();
  Background call([&] {
    return Acquire({.timeout = absl::Seconds(9), .cancellation = cancellation});
  });
  AwaitAlarms(1);

  cancellation->Cancel();

  EXPECT_THAT(call.Result(),
              StatusIs(absl::StatusCode::kCancelled,
                       HasSubstr("for the end of a checkpoint")));
  EXPECT_EQ(alarms_.num_pending(), 0u);
}

TEST_F(LongLockTest, CallerThatHasGoneDoesNotBeginToWait) {
  const LongLock::Holder first = lock_.Acquire();
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();

  EXPECT_THAT(Acquire({.cancellation = cancellation}),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LongLockTest, WhoGaveUpIsPassedOver) {
  LongLock::Holder first = lock_.Acquire();
  Background gives_up([&] { return Acquire({.timeout = absl::Seconds(1)}); });
  AwaitAlarms(1);
  Background waits([&] { return Acquire({.timeout = absl::Seconds(9)}); });
  AwaitAlarms(2);
  alarms_.Advance(absl::Seconds(1));
  EXPECT_THAT(gives_up.Result(), StatusIs(absl::StatusCode::kDeadlineExceeded));

  first.Release();

  EXPECT_OK(waits.Result());
}

TEST_F(LongLockTest, EndOfWaitsIsForCallsAlone) {
  LongLock::Holder first = lock_.Acquire();
  Background call([&] { return Acquire({.timeout = absl::Seconds(9)}); });
  AwaitAlarms(1);
  Background patient([&] { return lock_.Acquire().has_lock(); });

  lock_.EndWaits(absl::UnavailableError("stopping"));

  EXPECT_THAT(call.Result(),
              StatusIs(absl::StatusCode::kUnavailable, "stopping"));
  EXPECT_THAT(Acquire({}), StatusIs(absl::StatusCode::kUnavailable));
  first.Release();
  EXPECT_TRUE(patient.Result());
}

TEST_F(LongLockTest, MayBeGivenBackWhenTheLockHasGone) {
  LongLock::Holder holder;
  {
    LongLock gone("n", "a checkpoint");
    holder = gone.Acquire();
  }

  holder.Release();

  EXPECT_FALSE(holder.has_lock());
}

}  // namespace
}  // namespace tensorkv
