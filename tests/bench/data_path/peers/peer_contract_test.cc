// What every peer does, ours and those that it is compared with.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/data_path/peers/memcpy_peer.h"
#include "bench/data_path/peers/naive_grpc_peer.h"
#include "bench/data_path/peers/naive_server.h"
#include "bench/data_path/peers/socket_peer.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/data_path/peers/wire_protocol.h"
#include "bench/data_path/sockets/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/bench/data_path/peers/raw_server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace peer_contract_test {

using ::tensorkv::testing::RawServerFixture;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kRawMaxValueBytes = 1 << 20;

// The servers of all peers.
struct Servers {
  RawServerFixture raw;
  std::unique_ptr<NaiveServer> naive =
      NaiveServer::Start("127.0.0.1:0").value();
  std::unique_ptr<Server> tensorkv =
      Server::Create({.listen = "127.0.0.1:0", .metrics_listen = ""}).value();

  std::shared_ptr<NaiveStore::Stub> Stub() const {
    return ConnectToNaiveServer(naive->address());
  }
  std::shared_ptr<Client> Connect() const {
    return Client::Connect({.target = tensorkv->address()}).value();
  }
  Peer RawPeer() const {
    WireProtocol protocol = kRawProtocol;
    protocol.max_value_bytes = kRawMaxValueBytes;
    return SocketPeer({.name = "raw", .address = raw.address(), .server = 7},
                      protocol);
  }
};

struct PeerCase {
  std::string name;
  std::function<Peer(const Servers&)> make;
};

class PeerContractTest : public ::testing::TestWithParam<PeerCase> {
 protected:
  const Servers servers_;
};

TEST_P(PeerContractTest, EveryVerbRuns) {
  const Peer peer = GetParam().make(servers_);
  for (const Verb verb : {Verb::kPush, Verb::kPull, Verb::kPushPull}) {
    const Workload workload = {
        .verb = verb, .bytes_per_key = 4096, .num_keys = 3, .in_flight = 2};
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> load,
                         peer.make_load(workload));
    std::vector<absl::Duration> latencies;

    EXPECT_OK(load->Run(6, &latencies));
    EXPECT_THAT(latencies, SizeIs(6));
    EXPECT_EQ(load->shape().bytes_per_call, workload.bytes_per_call());
    EXPECT_EQ(load->shape().keys_per_call, 3);
  }
  EXPECT_EQ(peer.name, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(
    AllPeers, PeerContractTest,
    ::testing::Values(
        PeerCase{"raw", [](const Servers& s) { return s.RawPeer(); }},
        PeerCase{"naive",
                 [](const Servers& s) { return NaiveGrpcPeer(s.Stub(), 0); }},
        PeerCase{"echo",
                 [](const Servers& s) { return GrpcEchoPeer(s.Stub(), 0); }},
        PeerCase{"memcpy", [](const Servers&) { return MemcpyPeer(); }},
        PeerCase{
            "tensorkv",
            [](const Servers& s) { return TensorkvPeer(s.Connect(), 0); }}),
    [](const auto& info) { return info.param.name; });

TEST(PeersTest, WhatIsBeyondAPeersLimitIsOutOfRange) {
  const Servers servers;

  EXPECT_THAT(
      servers.RawPeer().make_load({.bytes_per_key = kRawMaxValueBytes + 4}),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("raw takes values of at most 1048576")));
  EXPECT_THAT(NaiveGrpcPeer(servers.Stub(), 0)
                  .make_load({.bytes_per_key = int64_t{2} << 30}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2 GiB")));
}

TEST(PeersTest, MessagesOfTheNaivePeerMayBeLargerThanGrpcsDefault) {
  const Servers servers;
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Load> load,
      NaiveGrpcPeer(servers.Stub(), 0)
          .make_load({.verb = Verb::kPushPull, .bytes_per_key = 5 << 20}));
  std::vector<absl::Duration> latencies;

  EXPECT_OK(load->Run(1, &latencies));
}

TEST(PeersTest, WithoutAServerTheReasonIsGiven) {
  const Peer peer =
      SocketPeer({.name = "redis", .address = FreeLoopbackAddress().value()},
                 kRawProtocol);

  EXPECT_THAT(peer.make_load({.bytes_per_key = 4}),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(PeersTest, LoadsOfOursHaveKeysOfTheirOwnWhichGoWithThem) {
  const Servers servers;
  const Peer peer = TensorkvPeer(servers.Connect(), 0);
  std::vector<absl::Duration> latencies;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> first,
                         peer.make_load({.bytes_per_key = 64}));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Load> second,
                         peer.make_load({.bytes_per_key = 4096}));
    EXPECT_OK(first->Run(1, &latencies));
    EXPECT_OK(second->Run(1, &latencies));
  }

  ASSERT_OK_AND_ASSIGN(const ListReply keys, servers.Connect()->List());
  EXPECT_THAT(keys.keys, IsEmpty());
}

}  // namespace peer_contract_test
}  // namespace tensorkv::bench
