#include "base/alarms.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kLater = absl::Hours(24);

// Runs a function when it is destroyed.
class AtEnd {
 public:
  explicit AtEnd(absl::AnyInvocable<void() &&> function)
      : function_(std::move(function)) {}
  ~AtEnd() { std::move(function_)(); }

 private:
  absl::AnyInvocable<void() &&> function_;
};

TEST(FakeAlarmsTest, RunsWhatIsDueInOrderOfTime) {
  FakeAlarms alarms;
  std::vector<std::string> ran;
  const absl::Duration now = alarms.Now();
  alarms.Schedule(now + absl::Seconds(2), [&] { ran.push_back("second"); });
  alarms.Schedule(now + absl::Seconds(1), [&] { ran.push_back("first"); });
  alarms.Schedule(now + absl::Seconds(9), [&] { ran.push_back("later"); });

  alarms.Advance(absl::Seconds(2));

  EXPECT_THAT(ran, ElementsAre("first", "second"));
  EXPECT_EQ(alarms.num_pending(), 1);
}

TEST(FakeAlarmsTest, RunsAlarmsOfOneTimeInOrderOfScheduling) {
  FakeAlarms alarms;
  std::vector<int> ran;
  alarms.Schedule(alarms.Now(), [&] { ran.push_back(1); });
  alarms.Schedule(alarms.Now(), [&] { ran.push_back(2); });

  alarms.Advance(absl::ZeroDuration());

  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(FakeAlarmsTest, CancelledAlarmsDoNotRun) {
  FakeAlarms alarms;
  std::vector<int> ran;
  const Alarms::Id id =
      alarms.Schedule(alarms.Now(), [&] { ran.push_back(1); });

  EXPECT_TRUE(alarms.Cancel(id));
  alarms.Advance(absl::Seconds(1));

  EXPECT_THAT(ran, IsEmpty());
  EXPECT_FALSE(alarms.Cancel(id));
}

TEST(FakeAlarmsTest, CancelAfterTheRunReturnsFalse) {
  FakeAlarms alarms;
  const Alarms::Id id = alarms.Schedule(alarms.Now(), [] {});

  alarms.Advance(absl::ZeroDuration());

  EXPECT_FALSE(alarms.Cancel(id));
}

TEST(FakeAlarmsTest, CallbacksMayScheduleAndCancel) {
  FakeAlarms alarms;
  std::vector<int> ran;
  const absl::Duration now = alarms.Now();
  const Alarms::Id cancelled =
      alarms.Schedule(now + absl::Seconds(2), [&] { ran.push_back(2); });
  alarms.Schedule(now + absl::Seconds(1), [&] {
    ran.push_back(1);
    alarms.Cancel(cancelled);
    alarms.Schedule(now + absl::Seconds(3), [&] { ran.push_back(3); });
  });

  alarms.Advance(absl::Seconds(3));

  EXPECT_THAT(ran, ElementsAre(1, 3));
}

TEST(FakeAlarmsTest, WhatACallbackOwnsMayUseTheAlarmsWhenItGoes) {
  FakeAlarms alarms;
  int num_gone = 0;
  const auto schedule = [&] {
    auto owned = std::make_unique<AtEnd>([&] {
      ++num_gone;
      alarms.Cancel(0);
    });
    return alarms.Schedule(alarms.Now(), [owned = std::move(owned)] {});
  };

  schedule();
  alarms.Advance(absl::ZeroDuration());
  EXPECT_EQ(num_gone, 1);

  alarms.Cancel(schedule());
  EXPECT_EQ(num_gone, 2);
}

TEST(SteadyAlarmsTest, RunsNotBeforeTheTime) {
  Notification has_run;
  SteadyAlarms alarms;
  const absl::Duration due = alarms.Now() + absl::Milliseconds(5);
  absl::Duration ran_at;

  alarms.Schedule(due, [&] {
    ran_at = alarms.Now();
    has_run.Notify();
  });

  has_run.WaitForNotification();
  EXPECT_GE(ran_at, due);
}

TEST(SteadyAlarmsTest, EarlierAlarmOvertakesOneThatIsWaitedFor) {
  Notification has_run;
  SteadyAlarms alarms;
  alarms.Schedule(alarms.Now() + kLater, [] {});
  alarms.Schedule(absl::InfiniteDuration(), [] {});

  alarms.Schedule(alarms.Now(), [&] { has_run.Notify(); });

  has_run.WaitForNotification();
}

TEST(SteadyAlarmsTest, CallbacksRunOnAnotherThread) {
  Notification has_run;
  SteadyAlarms alarms;
  std::thread::id thread;

  alarms.Schedule(alarms.Now(), [&] {
    thread = std::this_thread::get_id();
    has_run.Notify();
  });

  has_run.WaitForNotification();
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(SteadyAlarmsTest, CancelDropsAnAlarmOnce) {
  SteadyAlarms alarms;
  const Alarms::Id id = alarms.Schedule(alarms.Now() + kLater, [] {});

  EXPECT_TRUE(alarms.Cancel(id));
  EXPECT_FALSE(alarms.Cancel(id));
}

TEST(SteadyAlarmsTest, CancelDuringTheRunReturnsFalseAndDoesNotWait) {
  Notification has_started;
  Notification may_end;
  SteadyAlarms alarms;
  const Alarms::Id id = alarms.Schedule(alarms.Now(), [&] {
    has_started.Notify();
    may_end.WaitForNotification();
  });
  has_started.WaitForNotification();

  EXPECT_FALSE(alarms.Cancel(id));

  may_end.Notify();
}

TEST(SteadyAlarmsTest, CallbacksMayScheduleAndCancel) {
  Notification has_run;
  SteadyAlarms alarms;
  bool was_cancelled = false;
  const Alarms::Id later = alarms.Schedule(alarms.Now() + kLater, [] {});

  alarms.Schedule(alarms.Now(), [&] {
    was_cancelled = alarms.Cancel(later);
    alarms.Schedule(alarms.Now(), [&] { has_run.Notify(); });
  });

  has_run.WaitForNotification();
  EXPECT_TRUE(was_cancelled);
}

TEST(SteadyAlarmsTest, DestructorDropsWhatIsScheduled) {
  bool has_run = false;
  bool was_dropped = false;
  {
    SteadyAlarms alarms;
    auto owned = std::make_unique<AtEnd>([&] { was_dropped = true; });
    alarms.Schedule(alarms.Now() + kLater,
                    [&, owned = std::move(owned)] { has_run = true; });
  }

  EXPECT_FALSE(has_run);
  EXPECT_TRUE(was_dropped);
}

TEST(SteadyAlarmsTest, DestructorWaitsForACallbackUnderWay) {
  bool has_ended = false;
  {
    Notification has_started;
    SteadyAlarms alarms;
    alarms.Schedule(alarms.Now(), [&] {
      has_started.Notify();
      std::this_thread::yield();
      has_ended = true;
    });
    has_started.WaitForNotification();
  }

  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace tensorkv
