#include "bench/gpu/push_suite.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Summaries;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PushSuiteTest : public testing::GpuSuiteTest {
 protected:
  ComparisonTable Measure(const std::string& only = "") {
    RowRunner runner = Runner(only);
    return MeasurePush(backend_.get(), sizes_, &runner);
  }
};

TEST_F(PushSuiteTest, PartsOfAPushAreMeasured) {
  const ComparisonTable table = Measure();

  ExpectComplete(table);
  EXPECT_THAT(Summaries(table),
              ElementsAre("push/update/4KiB by MXNet, published >= 13",
                          "push/update/4KiB/p99", "push/copy/4KiB",
                          "push/copy/4KiB/p99", "push/whole/4KiB",
                          "push/whole/4KiB/p99"));
}

TEST_F(PushSuiteTest, TheGoalIsMetBelowSixtyMicroseconds) {
  const ComparisonTable table = Measure("push/update");

  const Comparison& update = table.comparisons.front();
  EXPECT_EQ(update.unit, "us");
  EXPECT_EQ(update.limit->value, 780);
  EXPECT_EQ(update.limit->ratio, 780 / update.ours);
  EXPECT_EQ(update.limit->is_met(), update.ours <= 60);
}

TEST_F(PushSuiteTest, ADeviceThatFailsIsSaid) {
  gpu_.FailWork(2, absl::InternalError("broken"));

  const ComparisonTable table = Measure("push/whole");

  EXPECT_THAT(table.comparisons, IsEmpty());
  EXPECT_THAT(table.left_out, ElementsAre(HasSubstr("broken")));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
