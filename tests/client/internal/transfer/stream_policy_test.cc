#include "client/internal/transfer/stream_policy.h"

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
  EXPECT_FALSE(PolicyOf(kMiB).ShouldStream(PushOf(kMiB - 1)));
  EXPECT_TRUE(PolicyOf(kMiB).ShouldStream(PushOf(kMiB)));
}

TEST(StreamPolicyTest, SmallTensorsStreamOnlyWhereTheyMust) {
  const auto list = [](size_t num_tensors, int64_t size) {
    PushRequest push;
    push.entries.assign(num_tensors, PushOf(size).entries[0]);
    return push;
  };

  EXPECT_FALSE(PolicyOf(kMiB).ShouldStream(list(256, (64 << 10) - 1)));
  EXPECT_TRUE(PolicyOf(kMiB).ShouldStream(list(256, 64 << 10)));
  EXPECT_TRUE(PolicyOf(kMiB).ShouldStream(list(10'000, 7 << 10)));
}

TEST(StreamPolicyTest, RequestStreamsWhereItDoesNotFitWithItsMetadata) {
  const StreamPolicy policy = PolicyOf(~uint64_t{0});
  PushRequest long_key = PushOf(kMaxMessageBytes - 1000);
  long_key.entries[0].key = std::string(1000, 'k');

  EXPECT_FALSE(policy.ShouldStream(PushOf(kMaxMessageBytes - 1000)));
  EXPECT_TRUE(policy.ShouldStream(long_key));
  EXPECT_TRUE(policy.ShouldStream(PushOf(kMaxMessageBytes)));
}

TEST(StreamPolicyTest, NamesOfStatesAreMetadataToo) {
  const StreamPolicy policy = PolicyOf(~uint64_t{0});
  const auto set = [](const std::string& state) {
    return SetStateRequest{
        .entries = {
            {"w", state, PushOf(kMaxMessageBytes - 1000).entries[0].tensor}}};
  };

  EXPECT_FALSE(policy.ShouldStream(set("mean")));
  EXPECT_TRUE(policy.ShouldStream(set(std::string(1000, 's'))));
}

TEST(StreamPolicyTest, ThresholdOfZeroStreamsEverything) {
  EXPECT_TRUE(PolicyOf(0).ShouldStream(InitRequest()));
  EXPECT_TRUE(PolicyOf(0).ShouldStream(SetStateRequest()));
  EXPECT_TRUE(PolicyOf(0).ShouldStream(PushOf(1)));
}

}  // namespace stream_policy_test
}  // namespace tensorkv
