#include "bench/gpu/staging_suite.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Comparisons;
using ::tensorkv::testing::HostCopies;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StagingSuiteTest : public testing::GpuSuiteTest {
 protected:
  Section Measure(const std::string& only = "") {
    RowRunner runner = Runner(only);
    return MeasureStaging(backend_.get(), &copies_, sizes_, &runner);
  }
};

TEST_F(StagingSuiteTest, BothDirectionsAreBesidePinnedCopies) {
  const Section section = Measure();

  ExpectComplete(section);
  EXPECT_THAT(Comparisons(section),
              ElementsAre("staging/to_device/3MiB@1 by pinned copy",
                          "staging/to_device/3MiB@2 by pinned copy",
                          "staging/to_device/5x256B@1 by pinned copy",
                          "staging/to_host/3MiB@1 by pinned copy",
                          "staging/to_host/3MiB@2 by pinned copy",
                          "staging/to_host/5x256B@1 by pinned copy"));
  EXPECT_THAT(progress_.str(), HasSubstr("3MiB@2, 2 in flight\n"));
}

TEST_F(StagingSuiteTest, APinnedCopyHasTheBytesOfOneCall) {
  Measure("5x256B");

  EXPECT_THAT(copies_.made(),
              ElementsAre(HostCopies::Made{CopyDirection::kToDevice, 5 * 256},
                          HostCopies::Made{CopyDirection::kToHost, 5 * 256}));
}

TEST_F(StagingSuiteTest, ADeviceThatFailsIsSaid) {
  gpu_.FailWork(0, absl::InternalError("broken"));

  const Section section = Measure("to_host/3MiB@1");

  EXPECT_THAT(section.rows, IsEmpty());
  EXPECT_THAT(section.left_out,
              ElementsAre(AllOf(HasSubstr("staging/to_host/3MiB@1"),
                                HasSubstr("broken"))));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
