#include "bench/gpu/contribution_suite.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Comparisons;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ContributionSuiteTest : public testing::GpuSuiteTest {
 protected:
  Section Measure(const std::string& only = "") {
    sizes_.read_in_place_bytes = {4096};
    RowRunner runner = Runner(only);
    return MeasureContributions(backend_.get(), sizes_, &runner);
  }
};

TEST_F(ContributionSuiteTest, ReadingIsBesideCopying) {
  const Section section = Measure();

  ExpectComplete(section);
  EXPECT_THAT(
      Comparisons(section),
      ElementsAre("contribution/read_in_place/4KiB by copied before",
                  "contribution/read_in_place/5x256B by copied before"));
}

TEST_F(ContributionSuiteTest, ADeviceThatFailsIsSaid) {
  gpu_.FailWork(0, absl::InternalError("broken"));

  EXPECT_THAT(Measure("/4KiB").left_out, ElementsAre(HasSubstr("broken")));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
