#include "bench/data_path/peers/memcpy_peer.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::testing::SizeIs;

TEST(MemcpyPeerTest, CopiesOneAfterTheOther) {
  MemcpyPeer peer;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                       peer.MakeLoad({.verb = Verb::kPushPull,
                                      .bytes_per_key = 1024,
                                      .num_keys = 2,
                                      .in_flight = 16}));
  std::vector<absl::Duration> latencies;

  ASSERT_OK(load->Run(5, &latencies));

  EXPECT_THAT(latencies, SizeIs(5));
  EXPECT_EQ(load->shape().bytes_per_call, 2 * 2 * 1024);
  EXPECT_EQ(load->shape().in_flight, 1);
}

}  // namespace
}  // namespace tensorkv::bench
