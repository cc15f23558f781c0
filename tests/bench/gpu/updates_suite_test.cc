#include "bench/gpu/updates_suite.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::Comparisons;
using ::tensorkv::testing::HostCopies;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UpdatesSuiteTest : public testing::GpuSuiteTest {
 protected:
  Section MeasureLarge(const std::string& only = "") {
    RowRunner runner = Runner(only);
    return MeasureLargeUpdates(backend_.get(), &copies_, sizes_, &runner);
  }
  Section MeasureSmall() {
    RowRunner runner = Runner();
    return MeasureSmallUpdates(backend_.get(), &copies_, sizes_, &runner);
  }
};

TEST_F(UpdatesSuiteTest, EveryLargeUpdateIsBesideACopyOfAsManyElements) {
  const Section section = MeasureLarge();

  ExpectComplete(section);
  EXPECT_THAT(Comparisons(section),
              ElementsAre("update/adam/f32/80000B by device copy",
                          "update/sgd_momentum/f32/80000B by device copy",
                          "update/sum_of_8_sgd/f32/80000B by device copy",
                          "update/adam/bf16_master/40000B by device copy"));
  EXPECT_THAT(copies_.made(),
              AllOf(SizeIs(4), Each(HostCopies::Made{
                                   CopyDirection::kWithinDevice, 80'000})));
}

TEST_F(UpdatesSuiteTest, ABatchIsBesideSingleCallsAndACopyThatMovesAsMuch) {
  const Section section = MeasureSmall();

  ExpectComplete(section);
  EXPECT_THAT(Comparisons(section),
              ElementsAre("batch/adam/f32/5x256B by one by one",
                          "batch/adam/f32/5x256B by device copy"));
  // 28 bytes for each of 5 x 64 elements are moved.
  EXPECT_THAT(copies_.made(),
              ElementsAre(HostCopies::Made{CopyDirection::kWithinDevice,
                                           5 * 64 * 28 / 2}));
}

TEST_F(UpdatesSuiteTest, OnlyWhatIsAskedForTakesMemory) {
  const Section section = MeasureLarge("sgd_momentum");

  EXPECT_THAT(section.rows, SizeIs(1));
  EXPECT_THAT(copies_.made(), SizeIs(1));
}

TEST_F(UpdatesSuiteTest, WhatDoesNotFitIsLeftOutWithTheReason) {
  sizes_.update_elements = kQuotaBytes / sizeof(float);

  const Section section = MeasureLarge("adam/f32");

  EXPECT_THAT(section.rows, IsEmpty());
  EXPECT_THAT(section.left_out,
              ElementsAre(AllOf(HasSubstr("update/adam/f32/64MiB: "),
                                HasSubstr("bytes"))));
}

TEST_F(UpdatesSuiteTest, WithoutACopyTheUpdateIsAFigureByItself) {
  copies_.Break(absl::ResourceExhaustedError("no memory for the copy"));

  const Section section = MeasureLarge("adam/f32");

  EXPECT_THAT(Comparisons(section), ElementsAre("update/adam/f32/80000B"));
  EXPECT_THAT(section.left_out,
              ElementsAre(HasSubstr("no memory for the copy")));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
