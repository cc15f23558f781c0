#include "client/internal/stream_policy.h"

#include <string>

#include "gtest/gtest.h"

namespace tensorkv {
namespace stream_policy_test {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMaxMessageBytes = 64 * kMiB;

StreamPolicy PolicyOf(uint64_t threshold_bytes) {
  return StreamPolicy({.stream_threshold_bytes = threshold_bytes},
                      kMaxMessageBytes);
}

PushRequest PushOf(int64_t size) {
  return {
      .entries = {{.key = "w",
                   .tensor = *Tensor::WithoutData(DType::kU8, Shape({size}))}}};
}

TEST(StreamPolicyTest, PayloadsStreamFromTheThresholdOn) {
  EXPECT_FALSE(PolicyOf(kMiB).Streams(kMiB - 1, 1));
  EXPECT_TRUE(PolicyOf(kMiB).Streams(kMiB, 1));
}

TEST(StreamPolicyTest, SmallTensorsStreamOnlyWhereTheyMust) {
  EXPECT_FALSE(PolicyOf(kMiB).Streams(16 * kMiB, 257));
  EXPECT_TRUE(PolicyOf(kMiB).Streams(16 * kMiB, 256));
  EXPECT_TRUE(PolicyOf(kMiB).Streams(kMaxMessageBytes + 1, 1'000'000));
}

TEST(StreamPolicyTest, ManySmallValuesStreamInBatchesFromHalfTheThresholdOn) {
  EXPECT_FALSE(PolicyOf(2 * kMiB).StreamsInBatches(kMiB - 1, 1000));
  EXPECT_TRUE(PolicyOf(2 * kMiB).StreamsInBatches(kMiB, 1000));
  EXPECT_TRUE(PolicyOf(2 * kMiB).StreamsInBatches(kMiB, 17));
  EXPECT_FALSE(PolicyOf(2 * kMiB).StreamsInBatches(kMiB, 16));
  EXPECT_FALSE(PolicyOf(~uint64_t{0}).StreamsInBatches(kMiB, 1000));
}

TEST(StreamPolicyTest, RequestStreamsWhereItDoesNotFitWithItsMetadata) {
  const StreamPolicy policy = PolicyOf(~uint64_t{0});
  PushRequest long_key = PushOf(kMaxMessageBytes - 1000);
  long_key.entries[0].key = std::string(1000, 'k');

  EXPECT_FALSE(policy.Streams(PushOf(kMaxMessageBytes - 1000)));
  EXPECT_TRUE(policy.Streams(long_key));
  EXPECT_TRUE(policy.Streams(PushOf(kMaxMessageBytes)));
}

TEST(StreamPolicyTest, ThresholdOfZeroStreamsEverything) {
  EXPECT_TRUE(PolicyOf(0).Streams(0, 0));
  EXPECT_TRUE(PolicyOf(0).Streams(InitRequest()));
  EXPECT_TRUE(PolicyOf(0).Streams(PushOf(1)));
}

}  // namespace stream_policy_test
}  // namespace tensorkv
