#include "service/server/watchdog.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::StatusIs;

class WatchdogTest : public ::testing::Test {
 protected:
  void Hang() { hangs_ = true; }
  void GoOn() {
    hangs_ = false;
    std::move(hanging_)();
  }

  FakeAlarms alarms_;
  bool hangs_ = false;
  Watchdog::Done hanging_;
  std::vector<std::string> log_;
  int num_stuck_ = 0;
  Watchdog watchdog_{
      {{"rpc", [](Watchdog::Done done) { std::move(done)(); }},
       {"store",
        [this](Watchdog::Done done) {
          hangs_ ? void(hanging_ = std::move(done)) : std::move(done)();
        },
        [this] { ++num_stuck_; }}},
      {.period = absl::Seconds(1),
       .limit = absl::Seconds(15),
       .log = [this](absl::string_view line) { log_.emplace_back(line); }},
      &alarms_};
};

TEST_F(WatchdogTest, PartsThatAnswerAreWell) {
  alarms_.Advance(absl::Minutes(1));

  EXPECT_OK(watchdog_.status());
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(WatchdogTest, PartThatIsLateOnceAfterAPauseIsNotStuck) {
  alarms_.Advance(absl::Seconds(1));
  Hang();
  alarms_.Advance(absl::Seconds(1));

  alarms_.Advance(absl::Minutes(1));  // one late round
  GoOn();
  for (int i = 0; i < 20; ++i) alarms_.Advance(absl::Seconds(1));

  EXPECT_EQ(num_stuck_, 0);
}

TEST_F(WatchdogTest, PartThatHangsIsNamedOnceItsTimeIsOver) {
  alarms_.Advance(absl::Seconds(1));
  Hang();

  for (int i = 0; i < 15; ++i) alarms_.Advance(absl::Seconds(1));
  EXPECT_OK(watchdog_.status());
  for (int i = 0; i < 5; ++i) alarms_.Advance(absl::Seconds(1));

  EXPECT_THAT(watchdog_.status(), StatusIs(absl::StatusCode::kUnavailable,
                                           "no progress: store for 20 s"));
  EXPECT_THAT(log_, ElementsAre("store stands still"));
  EXPECT_EQ(num_stuck_, 1);
}

TEST_F(WatchdogTest, PartThatGoesOnIsWellAgain) {
  Hang();
  for (int i = 0; i < 20; ++i) alarms_.Advance(absl::Seconds(1));

  GoOn();

  EXPECT_OK(watchdog_.status());
  alarms_.Advance(absl::Seconds(1));
  EXPECT_THAT(log_, ElementsAre("store stands still", "store goes on again"));
}

TEST(WatchdogPartTest, LimitOfItsOwnComesFirst) {
  FakeAlarms alarms;
  std::vector<Watchdog::Done> hanging;
  int num_stuck = 0;
  const Watchdog watchdog(
      {{.name = "cuda:0",
        .probe =
            [&](Watchdog::Done done) { hanging.push_back(std::move(done)); },
        .on_stuck = [&] { ++num_stuck; },
        .limit = absl::Seconds(40)}},
      {.limit = absl::Seconds(15)}, &alarms);

  for (int i = 0; i < 40; ++i) alarms.Advance(absl::Seconds(1));
  EXPECT_OK(watchdog.status());
  EXPECT_EQ(num_stuck, 0);
  for (int i = 0; i < 3; ++i) alarms.Advance(absl::Seconds(1));

  EXPECT_TRUE(absl::IsUnavailable(watchdog.status()));
  EXPECT_EQ(num_stuck, 1);
}

// A clock that goes on while its alarms do not ring.
class DeafAlarms final : public Alarms {
 public:
  absl::Duration Now() const override { return now; }
  Id Schedule(absl::Duration, Callback) override { return 1; }
  bool Cancel(Id) override { return true; }

  absl::Duration now;
};

TEST(WatchdogOfAlarmsTest, AlarmsThatDoNotRingAreNoticed) {
  DeafAlarms alarms;
  const Watchdog watchdog({}, {.limit = absl::Seconds(15)}, &alarms);

  alarms.now = absl::Seconds(16);

  EXPECT_THAT(watchdog.status(), StatusIs(absl::StatusCode::kUnavailable,
                                          "no progress: alarms for 16 s"));
}

}  // namespace
}  // namespace tensorkv
