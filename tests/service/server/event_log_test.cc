#include "service/server/event_log.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class EventLogTest : public ::testing::Test {
 protected:
  void RefuseMany(int count) {
    for (int i = 0; i < count; ++i) log_.LogPeerRefused("too many connections");
  }

  FakeAlarms alarms_;
  std::vector<std::string> lines_;
  EventLog log_{&alarms_,
                [this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(EventLogTest, SaysWhatHappenedWhereAndWhy) {
  log_.Report(StoreEvent::kWorkerLost, "a \"b\"\n", "rank 1 was slow");
  log_.Report(StoreEvent::kNamespaceDeleted, "n", "");

  EXPECT_THAT(lines_, ElementsAre("worker lost: namespace=\"a \\\"b\\\"\\n\" "
                                  "rank 1 was slow",
                                  "namespace deleted: namespace=\"n\""));
}

TEST_F(EventLogTest, LinesOfAKindAreBoundedAndTheOthersCounted) {
  RefuseMany(EventLog::kLinesPerWindow + 3);
  log_.Report(StoreEvent::kWorkerLeft, "n", "rank 0");

  EXPECT_THAT(lines_, SizeIs(EventLog::kLinesPerWindow + 1));
  alarms_.Advance(EventLog::kWindow);

  EXPECT_EQ(lines_.back(), "peer refused: 3 more in the last 10s");
  RefuseMany(1);
  EXPECT_EQ(lines_.back(), "peer refused: too many connections");
}

TEST_F(EventLogTest, OthersCannotHideThatAnAdminsCallWasRefused) {
  RefuseMany(EventLog::kLinesPerWindow);

  log_.LogCallRefused(false, []() -> std::string {
    ADD_FAILURE() << "made for nothing";
    return "";
  });
  log_.LogCallRefused(true, [] { return std::string("method=Delete"); });

  EXPECT_EQ(lines_.back(), "admin call refused: method=Delete");
}

TEST_F(EventLogTest, FewLinesAreNeverSuppressed) {
  for (int i = 0; i < 100; ++i) {
    RefuseMany(EventLog::kLinesPerWindow);
    alarms_.Advance(EventLog::kWindow);
  }

  EXPECT_THAT(lines_, SizeIs(100 * EventLog::kLinesPerWindow));
}

}  // namespace
}  // namespace tensorkv
