#include "bench/data_path/peers/workload.h"

#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

TEST(WorkloadTest, PushPullMovesItsBytesBothWays) {
  const Workload push = {
      .verb = Verb::kPush, .bytes_per_key = 8, .num_keys = 3};
  const Workload both = {
      .verb = Verb::kPushPull, .bytes_per_key = 8, .num_keys = 3};

  EXPECT_EQ(push.bytes_per_call(), 24);
  EXPECT_EQ(both.bytes_per_call(), 48);
  EXPECT_EQ(both.bytes_per_lane(), 24);
}

TEST(WorkloadTest, VerbsSayWhatTheyDo) {
  EXPECT_TRUE((Workload{.verb = Verb::kPush}).pushes());
  EXPECT_FALSE((Workload{.verb = Verb::kPush}).pulls());
  EXPECT_FALSE((Workload{.verb = Verb::kPull}).pushes());
  EXPECT_TRUE((Workload{.verb = Verb::kPull}).pulls());
  EXPECT_TRUE((Workload{.verb = Verb::kPushPull}).pushes());
  EXPECT_TRUE((Workload{.verb = Verb::kPushPull}).pulls());
  EXPECT_EQ(NameOf(Verb::kPushPull), "pushpull");
}

TEST(WorkloadTest, SizesAreInTheLargestUnitThatDividesThem) {
  EXPECT_EQ(ByteText(0), "0B");
  EXPECT_EQ(ByteText(256), "256B");
  EXPECT_EQ(ByteText(4096), "4KiB");
  EXPECT_EQ(ByteText(64 << 20), "64MiB");
  EXPECT_EQ(ByteText((1 << 20) + 4), "1048580B");
  EXPECT_EQ(ByteText(int64_t{2048} << 30), "2048GiB");
}

TEST(WorkloadTest, ManyKeysShowInTheSize) {
  EXPECT_EQ(SizeText({.bytes_per_key = 4096}), "4KiB");
  EXPECT_EQ(SizeText({.bytes_per_key = 256, .num_keys = 10'000}), "10000x256B");
}

TEST(WorkloadTest, LanesHaveKeysOfTheirOwn) {
  EXPECT_EQ(KeyText(3, 12), "k3.12");
  EXPECT_NE(KeyText(1, 11), KeyText(11, 1));
}

}  // namespace
}  // namespace tensorkv::bench
