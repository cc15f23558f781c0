#include "bench/data_path/peers/socket_peer.h"

#include <memory>
#include <vector>

#include "bench/data_path/peers/connection_count.h"
#include "bench/data_path/peers/raw_protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/data_path/peers/raw_server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::RawServerFixture;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SocketPeerTest : public ::testing::Test {
 protected:
  SocketPeer MakePeer(bool uses_stripes) {
    return SocketPeer({.name = "raw",
                       .address = server_.address(),
                       .server = 7,
                       .max_value_bytes = 1 << 20,
                       .uses_stripes = uses_stripes},
                      std::make_unique<RawProtocol>());
  }

  // How many connections a load of `peer` uses.
  absl::StatusOr<int> CountConnections(SocketPeer peer,
                                       const Workload& workload) {
    const std::unique_ptr<Load> load = peer.MakeLoad(workload).value();
    return CountBusyConnections(server_.address(), [&] {
      std::vector<absl::Duration> latencies;
      return load->Run(workload.in_flight, &latencies);
    });
  }

  RawServerFixture server_;
};

TEST_F(SocketPeerTest, EveryVerbRuns) {
  SocketPeer peer = MakePeer(/*uses_stripes=*/false);
  for (const Verb verb : {Verb::kPush, Verb::kPull, Verb::kPushPull}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                         peer.MakeLoad({.verb = verb,
                                        .bytes_per_key = 4096,
                                        .num_keys = 3,
                                        .in_flight = 4}));
    std::vector<absl::Duration> latencies;

    EXPECT_OK(load->Run(10, &latencies));
    EXPECT_THAT(latencies, SizeIs(10));
  }
}

TEST_F(SocketPeerTest, ALoadKnowsItsShape) {
  SocketPeer peer = MakePeer(/*uses_stripes=*/false);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                       peer.MakeLoad({.verb = Verb::kPushPull,
                                      .bytes_per_key = 64,
                                      .num_keys = 3,
                                      .in_flight = 2}));

  EXPECT_EQ(load->shape().bytes_per_call, 2 * 3 * 64);
  EXPECT_EQ(load->shape().keys_per_call, 3);
  EXPECT_EQ(load->shape().in_flight, 2);
  EXPECT_EQ(load->shape().server, 7);
}

TEST_F(SocketPeerTest, OneCallIsCutOverTheConnections) {
  EXPECT_THAT(CountConnections(MakePeer(/*uses_stripes=*/true),
                               {.verb = Verb::kPushPull,
                                .bytes_per_key = 1 << 20,
                                .connections = 3}),
              IsOkAndHolds(3));
}

TEST_F(SocketPeerTest, ManyCallsTakeTurnsOnTheConnections) {
  EXPECT_THAT(
      CountConnections(
          MakePeer(/*uses_stripes=*/true),
          {.bytes_per_key = 64 << 10, .in_flight = 8, .connections = 2}),
      IsOkAndHolds(2));
}

TEST_F(SocketPeerTest, WithoutStripesThereIsOneConnection) {
  EXPECT_THAT(
      CountConnections(
          MakePeer(/*uses_stripes=*/false),
          {.bytes_per_key = 64 << 10, .in_flight = 8, .connections = 4}),
      IsOkAndHolds(1));
}

TEST_F(SocketPeerTest, AValueBeyondTheLimitIsOutOfRange) {
  EXPECT_THAT(MakePeer(/*uses_stripes=*/true)
                  .MakeLoad({.bytes_per_key = (1 << 20) + 4}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("raw takes values of at most 1048576")));
}

TEST_F(SocketPeerTest, WithoutServerTheReasonIsGiven) {
  SocketPeer peer({.name = "redis",
                   .address = FreeLoopbackAddress().value(),
                   .max_value_bytes = 1 << 20},
                  std::make_unique<RawProtocol>());

  EXPECT_THAT(peer.MakeLoad({.bytes_per_key = 4}),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv::bench
