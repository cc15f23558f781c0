#include "examples/fashion_mnist/epoch_tracker.h"

#include "gtest/gtest.h"

namespace tensorkv::fashion_mnist {
namespace {

StepReport Report(uint32_t epoch, uint32_t step, float mean_loss) {
  return {.epoch = epoch, .step = step, .num_steps = 2, .mean_loss = mean_loss};
}

TEST(EpochTrackerTest, NothingReportedIsNoProgress) {
  const EpochTracker tracker(/*num_workers=*/2);

  EXPECT_EQ(tracker.Progress(1), 0);
  EXPECT_EQ(tracker.MeanLoss(1), 0);
  EXPECT_FALSE(tracker.IsComplete(1));
}

TEST(EpochTrackerTest, EpochIsCompleteWhenEveryWorkerTookEveryStep) {
  EpochTracker tracker(/*num_workers=*/2);

  tracker.Add(Report(1, 1, 0));
  tracker.Add(Report(1, 2, 0));
  tracker.Add(Report(1, 1, 0));
  EXPECT_FALSE(tracker.IsComplete(1));
  EXPECT_EQ(tracker.Progress(1), 0.75);
  tracker.Add(Report(1, 2, 0));

  EXPECT_TRUE(tracker.IsComplete(1));
  EXPECT_EQ(tracker.Progress(1), 1);
}

TEST(EpochTrackerTest, WorkerAheadCountsForItsOwnEpoch) {
  EpochTracker tracker(/*num_workers=*/1);

  tracker.Add(Report(1, 1, 8));
  tracker.Add(Report(2, 1, 4));

  EXPECT_EQ(tracker.Progress(1), 0.5);
  EXPECT_EQ(tracker.Progress(2), 0.5);
  EXPECT_EQ(tracker.MeanLoss(2), 4);
}

TEST(EpochTrackerTest, LossIsTheMeanOverSteps) {
  EpochTracker tracker(/*num_workers=*/2);

  tracker.Add(Report(1, 1, 1));
  tracker.Add(Report(1, 2, 2));

  EXPECT_EQ(tracker.MeanLoss(1), 1.5);
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
