#include "bench/gpu/updates_suite.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::HostCopies;
using ::tensorkv::testing::Summaries;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UpdatesSuiteTest : public testing::GpuSuiteTest {
 protected:
  ComparisonTable MeasureLarge(const std::string& only = "") {
    RowRunner runner = Runner(only);
    return MeasureLargeUpdates(backend_.get(), &copies_, sizes_, &runner);
  }
  ComparisonTable MeasureSmall() {
    RowRunner runner = Runner();
    return MeasureSmallUpdates(backend_.get(), &copies_, sizes_, &runner);
  }
};

TEST_F(UpdatesSuiteTest, EveryLargeUpdateIsBesideACopyOfAsManyElements) {
  const ComparisonTable table = MeasureLarge();

  ExpectComplete(table);
  EXPECT_THAT(Summaries(table),
              ElementsAre("update/adam/f32/80000B by device copy >= 0.95",
                          "update/sgd_momentum/f32/80000B by device copy >= "
                          "0.95",
                          "update/sum_of_8_sgd/f32/80000B by device copy >= "
                          "0.95",
                          "update/adam/bf16_master/40000B by device copy >= "
                          "0.9"));
  EXPECT_THAT(copies_.made(),
              AllOf(SizeIs(4), Each(HostCopies::Made{
                                   CopyDirection::kWithinDevice, 80'000})));
}

TEST_F(UpdatesSuiteTest, ABatchIsBesideSingleCallsAndACopyThatMovesAsMuch) {
  const ComparisonTable table = MeasureSmall();

  ExpectComplete(table);
  EXPECT_THAT(Summaries(table),
              ElementsAre("batch/adam/f32/5x256B by one by one >= 50",
                          "batch/adam/f32/5x256B by device copy >= 0.5"));
  // 28 bytes for each of 5 x 64 elements are moved.
  EXPECT_THAT(copies_.made(),
              ElementsAre(HostCopies::Made{CopyDirection::kWithinDevice,
                                           5 * 64 * 28 / 2}));
}

TEST_F(UpdatesSuiteTest, OnlyWhatIsAskedForTakesMemory) {
  const ComparisonTable table = MeasureLarge("sgd_momentum");

  EXPECT_THAT(table.comparisons, SizeIs(1));
  EXPECT_THAT(copies_.made(), SizeIs(1));
}

TEST_F(UpdatesSuiteTest, WhatDoesNotFitIsLeftOutWithTheReason) {
  sizes_.update_elements = kQuotaBytes / sizeof(float);

  const ComparisonTable table = MeasureLarge("adam/f32");

  EXPECT_THAT(table.comparisons, IsEmpty());
  EXPECT_THAT(table.left_out,
              ElementsAre(AllOf(HasSubstr("update/adam/f32/64MiB: "),
                                HasSubstr("bytes"))));
}

TEST_F(UpdatesSuiteTest, WithoutACopyTheUpdateIsAFigureByItself) {
  copies_.Break(absl::ResourceExhaustedError("no memory for the copy"));

  const ComparisonTable table = MeasureLarge("adam/f32");

  EXPECT_THAT(Summaries(table), ElementsAre("update/adam/f32/80000B"));
  EXPECT_THAT(table.left_out, ElementsAre(HasSubstr("no memory for the copy")));
}

}  // namespace
}  // namespace tensorkv::bench::gpu
