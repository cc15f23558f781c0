#include "bench/data_path/peers/tensorkv_peer.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class TensorkvPeerTest : public ::testing::Test {
 protected:
  // Makes some calls.
  void ExpectRuns(const Workload& workload) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                         peer_->MakeLoad(workload));
    std::vector<absl::Duration> latencies;
    EXPECT_OK(load->Run(4, &latencies));
    EXPECT_THAT(latencies, SizeIs(4));
    EXPECT_EQ(load->shape().bytes_per_call, workload.bytes_per_call());
  }

  const std::unique_ptr<Server> server_ =
      Server::Create({.listen = "127.0.0.1:0", .metrics_listen = ""}).value();
  const std::unique_ptr<TensorkvPeer> peer_ =
      TensorkvPeer::Create(server_->address(), /*server=*/0).value();
};

TEST_F(TensorkvPeerTest, EveryVerbRuns) {
  for (const Verb verb : {Verb::kPush, Verb::kPull, Verb::kPushPull}) {
    ExpectRuns(
        {.verb = verb, .bytes_per_key = 4096, .num_keys = 3, .in_flight = 2});
  }
}

TEST_F(TensorkvPeerTest, LoadsDoNotShareKeys) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                       peer_->MakeLoad({.bytes_per_key = 64}));
  ExpectRuns({.bytes_per_key = 4096});
  std::vector<absl::Duration> latencies;

  EXPECT_OK(load->Run(1, &latencies));
}

TEST_F(TensorkvPeerTest, KeysGoWithTheirLoad) {
  ExpectRuns({.bytes_per_key = 64, .num_keys = 3, .in_flight = 2});
  ASSERT_OK_AND_ASSIGN(const auto client,
                       Client::Connect({.target = server_->address()}));

  ASSERT_OK_AND_ASSIGN(const ListReply keys, client->List());

  EXPECT_THAT(keys.keys, IsEmpty());
}

}  // namespace
}  // namespace tensorkv::bench
