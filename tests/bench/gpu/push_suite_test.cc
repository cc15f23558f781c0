#include "bench/gpu/push_suite.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Comparisons;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PushSuiteTest : public testing::GpuSuiteTest {
 protected:
  Section Measure(const std::string& only = "") {
    RowRunner runner = Runner(only);
    return MeasurePush(backend_.get(), sizes_, &runner);
  }
};

TEST_F(PushSuiteTest, PartsOfAPushAreMeasured) {
  const Section section = Measure();

  ExpectComplete(section);
  EXPECT_THAT(Comparisons(section),
              ElementsAre("push/update/512KiB by MXNet, published",
                          "push/copy/512KiB", "push/whole/512KiB"));
}

TEST_F(PushSuiteTest, TheGoalIsMetWithinTwentyMicroseconds) {
  const Section section = Measure("push/update");

  const double ours = section.rows.at(0).ours.p50_microseconds;
  EXPECT_EQ(CheckGoals({section}).at(0).is_met(), ours <= 20);
}

TEST_F(PushSuiteTest, ADeviceThatFailsIsSaid) {
  gpu_.FailWork(2, absl::InternalError("broken"));

  const Section section = Measure("push/whole");

  EXPECT_THAT(section.rows, IsEmpty());
  EXPECT_THAT(section.left_out, ElementsAre(HasSubstr("broken")));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
