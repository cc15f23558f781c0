#include "service/cluster/cluster_member.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/known_placement.h"
#include "tests/integration/etcd_process.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace cluster_member_test {

using ::testing::Contains;
using testing::EtcdProcess;
using ::testing::HasSubstr;
using testing::StatusIs;

// A server's part, without the server.
class Part {
 public:
  Part(const EtcdProcess& etcd, const std::string& name,
       absl::Duration lease = absl::Seconds(30),
       absl::Duration lost_after = absl::ZeroDuration())
      : known_(name),
        member_({.etcd = {etcd.address()},
                 .cluster = "c",
                 .server_name = name,
                 .address = name + ":1",
                 .size = 2,
                 .num_partitions = 16,
                 .lease = lease,
                 .lost_after = lost_after},
                &channels_, &known_,
                {.placed = [this] { placed_.Notify(); },
                 .replaced = [this] { replaced_.Notify(); },
                 .disowned = [this](auto& status) { Disown(status); },
                 .log = [this](auto& line) { lines_.push_back(line); }}) {}

  // What calls are to be answered once the listener has heard so often of it;
  // OK after a minute without.
  absl::Status AwaitDisowned(int num_times) {
    MutexLock lock(&mutex_);
    while (num_disowned_ < num_times) {
      if (changed_.WaitWithTimeout(&mutex_, absl::Minutes(1))) return {};
    }
    return disowned_;
  }

  Notification placed_;
  Notification replaced_;
  // To be read once the member has stopped.
  std::vector<std::string> lines_;
  KnownPlacement known_;
  Channels channels_;

 private:
  void Disown(const absl::Status& status) {
    MutexLock lock(&mutex_);
    ++num_disowned_;
    disowned_ = status;
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  int num_disowned_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status disowned_ ABSL_GUARDED_BY(mutex_);

 public:
  ClusterMember member_;
};

// The shortest that etcd gives.
constexpr absl::Duration kLease = absl::Seconds(2);

TEST(ClusterMemberTest, TwoMakeOnePlacement) {
  const EtcdProcess etcd;
  Part a(etcd, "a");
  Part b(etcd, "b");
  a.placed_.WaitForNotification();
  b.placed_.WaitForNotification();

  const ClusterPlacement placement = a.known_.last_placement();
  EXPECT_EQ(placement.cluster, "c");
  EXPECT_EQ(placement.version, 1u);
  EXPECT_EQ(placement.servers.size(), 2u);
  EXPECT_EQ(placement.owners.size(), 16u);
  EXPECT_EQ(b.known_.last_placement().owners, placement.owners);
  EXPECT_TRUE(placement.servers[0].live);
  EXPECT_EQ(placement.servers[0].address, "a:1");
}

TEST(ClusterMemberTest, OneOfTwoHasNoPlacement) {
  const EtcdProcess etcd;
  Part alone(etcd, "a");

  // An attempt has begun, and it ends.
  alone.member_.Stop();

  EXPECT_THAT(alone.known_.readiness(),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ClusterMemberTest, BadRegistrationIsPassedOver) {
  const EtcdProcess etcd;
  Channels channels;
  EtcdClient client(
      {.endpoints = {etcd.address()}, .timeout = absl::Seconds(20)}, &channels);
  etcdserverpb::TxnRequest txn;
  etcdserverpb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key("/tensorkv/c/servers/aa");
  put.set_value("\xff");
  ASSERT_OK(client.Txn(txn).status());

  Part a(etcd, "a");
  Part b(etcd, "b");
  a.placed_.WaitForNotification();
  a.member_.Stop();

  EXPECT_EQ(a.known_.last_placement().servers.size(), 2u);
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
  EXPECT_FALSE(c.known_.last_placement().servers[0].live);
  EXPECT_TRUE(c.known_.last_placement().servers[1].live);
}

// Calls may begin to wait at any time.
TEST(ClusterMemberTest, ServerThatIsOutOfTouchEndsWaitsAgainAndAgain) {
  EtcdProcess etcd;
  Part a(etcd, "a", kLease, kLease);
  Part b(etcd, "b", kLease, kLease);
  a.placed_.WaitForNotification();

  etcd.Stop();

  EXPECT_THAT(a.AwaitDisowned(4),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("no placement of the cluster")));
}

TEST(ClusterMemberTest, ServerWhoseNameAnotherHasEndsWaitsAgainAndAgain) {
  const EtcdProcess etcd;
  Part a(etcd, "a", kLease);
  Part b(etcd, "b", kLease);
  a.placed_.WaitForNotification();

  Part other(etcd, "a", kLease);

  EXPECT_THAT(a.AwaitDisowned(3),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("another server has the name a")));
}

// Moves of partitions tell of placements, too, before and after etcd is read.
TEST(ClusterMemberTest, ServerWhoseNameAnotherHasOwnsNothingByAnyPlacement) {
  const EtcdProcess etcd;
  Part a(etcd, "a", kLease);
  Part b(etcd, "b", kLease);
  a.placed_.WaitForNotification();
  ClusterPlacement later = a.known_.last_placement();
  later.version = 5;
  ASSERT_OK(a.known_.Set(later, "a"));
  ASSERT_GT(a.known_.num_own_partitions(), 0u);

  Part other(etcd, "a", kLease);
  a.replaced_.WaitForNotification();

  EXPECT_EQ(a.known_.num_own_partitions(), 0u);
  later.version = 6;
  ASSERT_OK(a.known_.Set(later, "a"));
  EXPECT_EQ(a.known_.last_placement().version, 6u);
  EXPECT_EQ(a.known_.num_own_partitions(), 0u);
}

// What they make anew, the others would pass over as older.
TEST(ClusterMemberTest, PlacementThatEtcdHasLostComesBackWithItsVersion) {
  EtcdProcess etcd;
  Part a(etcd, "a", kLease, kLease);
  Part b(etcd, "b", kLease, kLease);
  a.placed_.WaitForNotification();
  b.placed_.WaitForNotification();
  ClusterPlacement later = a.known_.last_placement();
  later.version = 5;
  ASSERT_OK(a.known_.Set(later, "a"));
  ASSERT_OK(b.known_.Set(later, "b"));
  etcd.Stop();
  EXPECT_FALSE(a.AwaitDisowned(1).ok());
  EXPECT_FALSE(b.AwaitDisowned(1).ok());

  etcd.LoseData();
  etcd.Start();

  Channels channels;
  ClusterRecords records(
      {.etcd = {etcd.address()}, .cluster = "c"}, [](const std::string&) {},
      &channels);
  absl::StatusOr<ClusterReading> reading;
  do {
    reading = records.Read();
  } while (!reading.ok() || reading->placement.owners.empty());
  EXPECT_EQ(reading->placement.version, 5u);
}

}  // namespace cluster_member_test
}  // namespace tensorkv
