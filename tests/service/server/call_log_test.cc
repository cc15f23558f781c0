#include "service/server/call_log.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CallLogTest : public ::testing::Test {
 protected:
  class CountingObserver final : public CallObserver {
   public:
    void Started(Method) override { ++num_started; }
    void Handled(Method, const CallOutcome&) override { ++num_handled; }

    int num_started = 0;
    int num_handled = 0;
  };

  void End(absl::StatusCode code, absl::Duration duration,
           const char* message = "") {
    log_.Started(Method::kPull);
    log_.Handled(Method::kPull, {.code = code,
                                 .duration = duration,
                                 .arriving = absl::Milliseconds(20),
                                 .message = message,
                                 .caller = &caller_});
  }

  FakeAlarms alarms_;
  std::vector<std::string> lines_;
  EventLog events_{&alarms_,
                   [this](const std::string& line) { lines_.push_back(line); }};
  CountingObserver inner_;
  CallLog log_{&inner_, &events_, absl::Seconds(1)};
  Caller caller_ = {.name = "token:a\n"};
};

TEST_F(CallLogTest, SaysWhoWaitedForWhat) {
  caller_.trace = "a1-b2";
  caller_.record = std::make_shared<CallRecord>(absl::Seconds(1));
  caller_.record->SetCall("n", CallId{"client", 7});
  caller_.record->SetAwaited("round 7 of \"w\": waiting for ranks 2");

  End(absl::StatusCode::kOk, absl::Seconds(3));

  EXPECT_THAT(
      lines_,
      ElementsAre(
          "slow call: method=Pull caller=\"token:a\\n\" outcome=OK "
          "took=3s arriving=20ms leaving=0 namespace=\"n\" "
          "call_id=dd01e8ef:7 waited_for=\"round 7 of \\\"w\\\": waiting "
          "for ranks 2\" trace=a1-b2"));
}

TEST_F(CallLogTest, FaultsOfTheServerAreToldHoweverLongTheyTook) {
  End(absl::StatusCode::kInternal, absl::ZeroDuration(), "a \"bug\"");

  EXPECT_THAT(lines_,
              ElementsAre("call failed: method=Pull caller=\"token:a\\n\" "
                          "outcome=INTERNAL took=0 arriving=20ms leaving=0 "
                          "error=\"a \\\"bug\\\"\""));
}

TEST_F(CallLogTest, OthersAreCountedAlone) {
  End(absl::StatusCode::kOk, absl::Milliseconds(999));
  End(absl::StatusCode::kNotFound, absl::ZeroDuration());

  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_EQ(inner_.num_started, 2);
  EXPECT_EQ(inner_.num_handled, 2);
}

}  // namespace
}  // namespace tensorkv
