#include "bench/harness/statistics.h"

#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

TEST(StatisticsTest, MedianOfAnOddNumberIsTheMiddleSample) {
  EXPECT_EQ(Median({5, 1, 3}), 3);
}

TEST(StatisticsTest, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(Median({4, 1, 2, 100}), 3);
}

TEST(StatisticsTest, OneSampleIsEveryStatistic) {
  EXPECT_EQ(Median({7}), 7);
  EXPECT_EQ(Percentile({7}, 0), 7);
  EXPECT_EQ(Percentile({7}, 0.99), 7);
}

TEST(StatisticsTest, NoSamplesGiveZero) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Percentile({}, 0.5), 0);
}

TEST(StatisticsTest, PercentileIsASampleThatSoManyDoNotExceed) {
  EXPECT_EQ(Percentile({4, 3, 2, 1}, 0.5), 2);
  EXPECT_EQ(Percentile({4, 3, 2, 1}, 0.51), 3);
  EXPECT_EQ(Percentile({4, 3, 2, 1}, 0.99), 4);
  EXPECT_EQ(Percentile({4, 3, 2, 1}, 1), 4);
}

}  // namespace
}  // namespace tensorkv::bench
