// What namespaces and workers are called is the same at all servers of a
// cluster.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using testing::Caller;
using testing::Full;
using testing::HasReason;
using testing::StatusIs;
using testing::TestCluster;

constexpr size_t kServers = 3;
const NamespaceConfig kConfig;

class ClusterIdsTest : public ::testing::Test {
 protected:
  ClusterIdsTest() {
    for (size_t i = 0; i < kServers; ++i) {
      servers_.push_back(cluster_.ConnectToOne(i));
    }
  }

  Caller Cluster() const { return Caller(*connection_, "n"); }
  Caller Home() const { return Caller(*servers_[home_], "n"); }
  Caller Other() const { return Caller(*servers_[other_], "n"); }
  // As another client would, which is no longer there.
  absl::Status CreateAtOther(uint64_t uid) const {
    return servers_[other_]
        ->Call(testing::CreateOf("n", {}, OnExisting::kFail, uid))
        .status();
  }
  void ExpectOneUid(const std::string& name) const {
    const uint64_t uid = Caller(*connection_, name).Describe()->uid();
    for (const auto& server : servers_) {
      EXPECT_EQ(Caller(*server, name).Describe()->uid(), uid) << name;
    }
  }

  TestCluster cluster_{kServers};
  const std::unique_ptr<Connection> connection_ = cluster_.Connect();
  std::vector<std::unique_ptr<Connection>> servers_;
  const size_t home_ = cluster_.HomeOf("n");
  const size_t other_ = (home_ + 1) % kServers;
};

TEST_F(ClusterIdsTest, NamespaceHasOneUid) {
  ASSERT_OK(Cluster().Create(kConfig));

  ExpectOneUid("n");
  ExpectOneUid("default");
}

TEST_F(ClusterIdsTest, LaterLifeHasAHigherUid) {
  ASSERT_OK(Cluster().Create(kConfig));
  const uint64_t first = Cluster().Describe()->uid();
  ASSERT_OK(Cluster().Drop());

  ASSERT_OK(Cluster().Create(kConfig));

  EXPECT_GT(Cluster().Describe()->uid(), first);
}

TEST_F(ClusterIdsTest, CreationRemovesWhatADeletionHasLeft) {
  ASSERT_OK(Cluster().Create(kConfig));
  ASSERT_OK(Home().Drop());

  ASSERT_OK(Cluster().Create({.mode = Mode::kSync, .num_workers = 1}));

  ExpectOneUid("n");
  EXPECT_EQ(Other().Describe()->config().mode(), v1::MODE_SYNC);
  EXPECT_EQ(Other().Describe()->num_keys(), 0u);
}

// The home may have lost it, too.
TEST_F(ClusterIdsTest, CreationRemovesNoKeys) {
  ASSERT_OK(Cluster().Create(kConfig));
  const std::string key = cluster_.KeyOf(other_, "n");
  ASSERT_OK(Cluster().Init(key, Full({1}, 1)));
  ASSERT_OK(Home().Drop());

  EXPECT_THAT(Cluster().Create(kConfig, OnExisting::kKeep),
              HasReason(Reason::kNamespaceReplaced));
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT(Cluster().Create(kConfig),
                HasReason(Reason::kNamespaceReplaced));
  }
  EXPECT_OK(Other().Pull(key));

  ASSERT_OK(Cluster().Drop());
  EXPECT_OK(Cluster().Create(kConfig, OnExisting::kKeep));
  ExpectOneUid("n");
}

TEST_F(ClusterIdsTest, DeletionRemovesWhatAnEarlierOneHasLeft) {
  ASSERT_OK(Cluster().Create(kConfig));
  ASSERT_OK(Home().Drop());
  ASSERT_OK(Home().Create(kConfig));

  ASSERT_OK(
      connection_->Call(testing::RemoveOf("n", Home().Describe()->uid())));

  EXPECT_THAT(Other().Describe(), HasReason(Reason::kNamespaceNotFound));
}

// Its home has gone back, or another client is faster.
TEST_F(ClusterIdsTest, LaterNamespaceStays) {
  ASSERT_OK(Home().Create(kConfig));
  const uint64_t uid = Home().Describe()->uid();
  ASSERT_OK(CreateAtOther(uid + 1));

  EXPECT_THAT(Cluster().Create(kConfig, OnExisting::kKeep),
              HasReason(Reason::kNamespaceReplaced));
  EXPECT_OK(connection_->Call(testing::RemoveOf("n", uid)));

  EXPECT_THAT(Home().Describe(), HasReason(Reason::kNamespaceNotFound));
  EXPECT_EQ(Other().Describe()->uid(), uid + 1);
  EXPECT_OK(Cluster().Drop());
  EXPECT_THAT(Other().Describe(), HasReason(Reason::kNamespaceNotFound));
}

class JoinedClusterTest : public ClusterIdsTest {
 protected:
  JoinedClusterTest() {
    EXPECT_OK(Cluster().Create({.mode = Mode::kSync, .num_workers = 2}));
  }

  void ExpectJoinedEverywhere(const std::string& name,
                              const Worker& worker) const {
    for (const auto& server : servers_) {
      const WorkerStatus status =
          Caller(*server, "n").Describe()->workers().at(worker.rank);
      EXPECT_EQ(status.name(), name);
      EXPECT_EQ(status.worker().epoch(), worker.epoch);
      EXPECT_TRUE(status.live());
    }
  }
  absl::StatusOr<JoinReply> JoinAtOther(const std::string& name,
                                        const Worker& worker) const {
    return servers_[other_]->Call(testing::ToldJoinOf("n", name, worker));
  }
};

TEST_F(JoinedClusterTest, WorkerHasOneEpoch) {
  const absl::StatusOr<Caller> a = Cluster().Join("a");
  const absl::StatusOr<Caller> b = Cluster().Join("b");
  ASSERT_OK(a);
  ASSERT_OK(b);

  ExpectJoinedEverywhere("a", a->worker());
  ExpectJoinedEverywhere("b", b->worker());
  EXPECT_GT(b->worker().epoch, a->worker().epoch);
}

// Any client may make its calls.
TEST_F(JoinedClusterTest, WorkerIsKnownToOtherClients) {
  ASSERT_OK(Cluster().Join("b"));
  const absl::StatusOr<Caller> joined = Cluster().Join("a");
  ASSERT_OK(joined);
  const std::unique_ptr<Connection> another = cluster_.Connect();
  const Caller a = Caller(*another, "n").As(joined->worker());
  for (size_t i = 0; i < kServers; ++i) {
    const std::string key = cluster_.KeyOf(i, "n");
    ASSERT_OK(Cluster().Init(key, Full({1}, 1)));
    EXPECT_OK(a.Push(key, Full({1}, 1), 1));
  }

  EXPECT_OK(a.KeepAlive());
  EXPECT_OK(a.Leave());
}

TEST_F(JoinedClusterTest, JoinThatBrokeOffIsCompletedByTheNext) {
  // Another worker has its rank at one server, still.
  ASSERT_OK(JoinAtOther("z", {.rank = 0, .epoch = 1}));
  EXPECT_THAT(Cluster().Join("a"), HasReason(Reason::kWorkerNameTaken));
  ASSERT_OK(Other().As({.rank = 0, .epoch = 1}).Leave());

  const absl::StatusOr<Caller> a = Cluster().Join("a");

  ASSERT_OK(a);
  ExpectJoinedEverywhere("a", a->worker());
}

// The home has come back without them; each still renews what it has elsewhere.
TEST_F(JoinedClusterTest, WorkersChangeRanksWhereTheHomeGivesThemAnew) {
  const Caller a = Cluster().Join("a").value();
  const Caller b = Cluster().Join("b").value();
  ASSERT_OK(Home().As(a.worker()).Leave());
  ASSERT_OK(Home().As(b.worker()).Leave());
  const auto join = [&](const std::string& name, uint32_t rank) {
    return connection_->Call(
        testing::JoinOf("n", name, absl::Minutes(5), rank));
  };

  EXPECT_THAT(join("b", 0), HasReason(Reason::kWorkerNameTaken));
  const auto second = join("a", 1);
  const auto first = join("b", 0);

  ASSERT_OK(second);
  ASSERT_OK(first);
  ExpectJoinedEverywhere("a", WorkerOf(second->worker()));
  ExpectJoinedEverywhere("b", WorkerOf(first->worker()));
}

// One server has lost the worker in the moment in which it joins.
TEST_F(JoinedClusterTest, JoinGetsAnotherEpochWhereOneServerHasLostIt) {
  const Caller a = Cluster().Join("a").value();
  ASSERT_OK(Other().As(a.worker()).Leave());
  JoinRequest join = testing::JoinOf("n", "a", absl::Minutes(5));
  join.set_replaces_epoch(a.worker().epoch);
  const auto again = connection_->Call(join);

  ASSERT_OK(again);
  EXPECT_GT(again->worker().epoch(), a.worker().epoch);
  ExpectJoinedEverywhere("a", WorkerOf(again->worker()));
  EXPECT_THAT(JoinAtOther("a", a.worker()), HasReason(Reason::kLeaseLost));
}

// It was deleted there, and made anew.
TEST_F(JoinedClusterTest, WorkerJoinsNoOtherNamespaceOfThatName) {
  const uint64_t uid = Home().Describe()->uid();
  ASSERT_OK(Other().Drop());
  ASSERT_OK(CreateAtOther(uid + 1));

  EXPECT_THAT(Cluster().Join("a"), HasReason(Reason::kNamespaceReplaced));

  EXPECT_EQ(Other().Describe()->workers_size(), 0);
}

TEST_F(JoinedClusterTest, WorkerJoinsTheNamespaceThatIsThereByNow) {
  ASSERT_OK(Cluster().Join("a"));
  const std::unique_ptr<Connection> another = cluster_.Connect();
  ASSERT_OK(Caller(*another, "n").Drop());
  ASSERT_OK(
      Caller(*another, "n").Create({.mode = Mode::kSync, .num_workers = 2}));

  const absl::StatusOr<Caller> b = Cluster().Join("b");

  ASSERT_OK(b);
  ExpectJoinedEverywhere("b", b->worker());
}

// The home has given both, one after the other.
TEST_F(JoinedClusterTest, LaterOfTwoJoinsStaysWhicheverComesFirst) {
  ASSERT_OK(JoinAtOther("a", {.rank = 0, .epoch = 7}));

  EXPECT_THAT(JoinAtOther("a", {.rank = 0, .epoch = 5}),
              HasReason(Reason::kLeaseLost));
  EXPECT_OK(JoinAtOther("a", {.rank = 0, .epoch = 7}));
  EXPECT_OK(JoinAtOther("a", {.rank = 0, .epoch = 9}));

  EXPECT_THAT(Other().As({.rank = 0, .epoch = 7}).KeepAlive(),
              HasReason(Reason::kLeaseLost));
  EXPECT_OK(Other().As({.rank = 0, .epoch = 9}).KeepAlive());
}

}  // namespace
}  // namespace tensorkv
