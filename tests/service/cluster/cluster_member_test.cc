#include "service/cluster/cluster_member.h"

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/known_placement.h"
#include "tests/integration/etcd_process.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace cluster_member_test {

using ::testing::Contains;
using testing::EtcdProcess;
using ::testing::HasSubstr;

// A server's part, without the server.
class Part {
 public:
  Part(const EtcdProcess& etcd, const std::string& name)
      : known_(name),
        member_({.etcd = {etcd.address()},
                 .cluster = "c",
                 .server_name = name,
                 .address = name + ":1",
                 .size = 2,
                 .num_partitions = 16,
                 .lease = absl::Seconds(30)},
                &known_,
                {.placed = [this] { placed_.Notify(); },
                 .replaced = [this] { replaced_.Notify(); },
                 .disowned = [](const absl::Status&) {},
                 .log = [this](auto& line) { lines_.push_back(line); }}) {}

  Notification placed_;
  Notification replaced_;
  // To be read once the member has stopped.
  std::vector<std::string> lines_;
  KnownPlacement known_;
  ClusterMember member_;
};

TEST(ClusterMemberTest, TwoMakeOnePlacement) {
  const EtcdProcess etcd;
  Part a(etcd, "a");
  Part b(etcd, "b");
  a.placed_.WaitForNotification();
  b.placed_.WaitForNotification();

  const ClusterPlacement placement = a.known_.Describe().placement;
  EXPECT_EQ(placement.cluster, "c");
  EXPECT_EQ(placement.version, 1u);
  EXPECT_EQ(placement.servers.size(), 2u);
  EXPECT_EQ(placement.owners.size(), 16u);
  EXPECT_EQ(b.known_.Describe().placement.owners, placement.owners);
  EXPECT_TRUE(placement.servers[0].is_live);
  EXPECT_EQ(placement.servers[0].address, "a:1");
}

TEST(ClusterMemberTest, OneOfTwoHasNoPlacement) {
  const EtcdProcess etcd;
  Part alone(etcd, "a");

  // A turn has begun, and it ends.
  alone.member_.Stop();

  EXPECT_THAT(alone.known_.readiness(),
              testing::StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ClusterMemberTest, BadRegistrationIsPassedOver) {
  const EtcdProcess etcd;
  EtcdClient client({etcd.address()}, absl::Seconds(20));
  etcdserverpb::TxnRequest txn;
  etcdserverpb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key("/tensorkv/c/servers/aa");
  put.set_value("\xff");
  ASSERT_OK(client.Txn(txn).status());

  Part a(etcd, "a");
  Part b(etcd, "b");
  a.placed_.WaitForNotification();
  a.member_.Stop();

  EXPECT_EQ(a.known_.Describe().placement.servers.size(), 2u);
  EXPECT_THAT(a.lines_, Contains(HasSubstr("/tensorkv/c/servers/aa")).Times(1));
}

TEST(ClusterMemberTest, StoppedMemberIsNotLiveForWhoComesNext) {
  const EtcdProcess etcd;
  auto a = std::make_unique<Part>(etcd, "a");
  Part b(etcd, "b");
  a->placed_.WaitForNotification();

  a->member_.Stop();

  Part c(etcd, "c");
  c.placed_.WaitForNotification();
  EXPECT_FALSE(c.known_.Describe().placement.servers[0].is_live);
  EXPECT_TRUE(c.known_.Describe().placement.servers[1].is_live);
}

}  // namespace cluster_member_test
}  // namespace tensorkv
