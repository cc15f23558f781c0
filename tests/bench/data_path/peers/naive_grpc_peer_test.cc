#include "bench/data_path/peers/naive_grpc_peer.h"

#include <memory>
#include <vector>

#include "bench/data_path/peers/naive_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class NaiveGrpcPeerTest : public ::testing::Test {
 protected:
  // Makes some calls.
  static void ExpectRuns(Peer* peer, const Workload& workload) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                         peer->MakeLoad(workload));
    std::vector<absl::Duration> latencies;
    EXPECT_OK(load->Run(4, &latencies));
    EXPECT_THAT(latencies, SizeIs(4));
    EXPECT_EQ(load->shape().bytes_per_call, workload.bytes_per_call());
  }

  const std::unique_ptr<NaiveServer> server_ =
      NaiveServer::Start("127.0.0.1:0").value();
  const std::shared_ptr<NaiveStore::Stub> stub_ =
      ConnectToNaiveServer(server_->address());
};

TEST_F(NaiveGrpcPeerTest, EveryVerbRuns) {
  NaiveGrpcPeer peer(stub_, /*server=*/0);
  for (const Verb verb : {Verb::kPush, Verb::kPull, Verb::kPushPull}) {
    ExpectRuns(
        &peer,
        {.verb = verb, .bytes_per_key = 4096, .num_keys = 3, .in_flight = 2});
  }
}

TEST_F(NaiveGrpcPeerTest, MessagesMayBeLargerThanGrpcsDefault) {
  NaiveGrpcPeer peer(stub_, /*server=*/0);

  ExpectRuns(&peer, {.verb = Verb::kPushPull, .bytes_per_key = 5 << 20});
}

TEST_F(NaiveGrpcPeerTest, TwoGigabytesAreTooMuchForAMessage) {
  NaiveGrpcPeer peer(stub_, /*server=*/0);

  EXPECT_THAT(peer.MakeLoad({.bytes_per_key = int64_t{2} << 30}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2 GiB")));
}

TEST_F(NaiveGrpcPeerTest, KeysGoWithTheirLoad) {
  NaiveGrpcPeer peer(stub_, /*server=*/0);
  ExpectRuns(&peer, {.verb = Verb::kPush, .bytes_per_key = 4});
  grpc::ClientContext context;
  NaiveKeys keys;
  keys.add_keys(KeyText(0, 0));
  NaiveValues values;

  EXPECT_EQ(stub_->Pull(&context, keys, &values).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(NaiveGrpcPeerTest, EchoesRun) {
  GrpcEchoPeer peer(stub_, /*server=*/0);

  ExpectRuns(&peer, {.verb = Verb::kPull, .bytes_per_key = 4096});
}

}  // namespace
}  // namespace tensorkv::bench
