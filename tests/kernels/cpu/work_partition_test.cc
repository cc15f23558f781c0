#include "kernels/cpu/work_partition.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kGranularity = 1024;

std::vector<TensorUpdate> UpdatesOf(const std::vector<int64_t>& sizes) {
  std::vector<TensorUpdate> batch(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    batch[i].value.num_elements = sizes[i];
  }
  return batch;
}

std::vector<BatchPosition> Partition(const std::vector<int64_t>& sizes) {
  return PartitionWork(UpdatesOf(sizes), kGranularity);
}

TEST(WorkPartitionTest, LittleWorkIsOnePart) {
  EXPECT_THAT(Partition({}), ElementsAre(BatchPosition{0, 0}));
  EXPECT_THAT(Partition({0}), ElementsAre(BatchPosition{1, 0}));
  EXPECT_THAT(Partition({5, 0, 1000}), ElementsAre(BatchPosition{3, 0}));
}

TEST(WorkPartitionTest, LargeTensorIsCutAtMultiplesOfTheGranularity) {
  EXPECT_THAT(Partition({70'000}),
              ElementsAre(BatchPosition{0, 32 * 1024},
                          BatchPosition{0, 64 * 1024}, BatchPosition{1, 0}));
}

TEST(WorkPartitionTest, PartsSpanTensors) {
  EXPECT_THAT(Partition({20'000, 20'000, 20'000}),
              ElementsAre(BatchPosition{1, 13 * 1024}, BatchPosition{3, 0}));
}

TEST(WorkPartitionTest, ElementsOfMeansCountOnceForEachContribution) {
  const std::vector<TensorView> contributions(16);
  std::vector<TensorUpdate> batch = UpdatesOf({5'000, 1'000, 1'000, 9});
  for (int i = 0; i < 3; ++i) {
    batch[i].contributions = contributions;
    batch[i].num_averaged = 2;
  }

  EXPECT_THAT(
      PartitionWork(batch, kGranularity),
      ElementsAre(BatchPosition{0, 2 * 1024}, BatchPosition{0, 4 * 1024},
                  BatchPosition{3, 0}, BatchPosition{4, 0}));
}

TEST(WorkPartitionTest, TinyTensorsCountForTheirOverhead) {
  const std::vector<BatchPosition> ends =
      Partition(std::vector<int64_t>(10'000, 1));

  EXPECT_EQ(ends.size(), 40);
  EXPECT_EQ(ends.back(), (BatchPosition{10'000, 0}));
}

TEST(WorkPartitionTest, EmptyTensorsAreSharedOutToo) {
  EXPECT_EQ(Partition(std::vector<int64_t>(10'000, 0)).size(), 40);
}

}  // namespace
}  // namespace tensorkv
