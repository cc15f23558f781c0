// Snapshots of three servers that are one store.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace cluster_snapshots_test {

using ::absl::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr size_t kNumServers = 3;
constexpr int64_t kElements = 1 << 14;

PublishAs PublicationOf(uint32_t keep_last = 0) {
  PublishAs publish_as;
  publish_as.set_series("s");
  publish_as.set_keep_last(keep_last);
  return publish_as;
}

CreateSnapshotRequest StepOf(CreateSnapshotRequest::Step step,
                             const CreateSnapshotReply& reserved = {}) {
  CreateSnapshotRequest request;
  request.set_series("s");
  request.set_step(step);
  if (reserved.uid() != 0) {
    request.set_uid(reserved.uid());
    request.set_number(reserved.number());
  }
  return request;
}

// Asks again and again until `condition` holds; false after a minute.
bool Eventually(absl::FunctionRef<bool()> condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
  }
  return true;
}

class ClusterSnapshotsTest : public ::testing::Test {
 protected:
  explicit ClusterSnapshotsTest(uint64_t split_bytes = 0)
      : cluster_(kNumServers, split_bytes), connection_(cluster_.Connect()) {
    for (size_t i = 0; i < kNumServers; ++i) {
      keys_.push_back(cluster_.KeyOf(i));
      servers_.push_back(cluster_.ConnectToOne(i));
    }
  }

  Caller Store() const { return Caller(*connection_, ""); }
  // One of the servers, as if there were no other.
  Caller At(size_t server) const { return Caller(*servers_[server], ""); }
  void Reconnect() {
    connection_ = cluster_.Connect();
    for (size_t i = 0; i < kNumServers; ++i) {
      servers_[i] = cluster_.ConnectToOne(i);
    }
  }
  size_t home() const { return cluster_.HomeOf(""); }
  size_t other() const { return (home() + 1) % kNumServers; }

  // Publishes a state, all of whose elements are that number.
  absl::StatusOr<uint64_t> Publish(double value, uint32_t keep_last = 0,
                                   uint64_t number = 0) {
    InitRequest init = {.on_existing = OnExisting::kReplace,
                        .publish_as = PublicationOf(keep_last)};
    if (number != 0) init.publish_as->set_number(number);
    for (const std::string& key : keys_) {
      init.entries.push_back({key, Full({kElements}, value)});
    }
    const absl::StatusOr<InitReply> reply = Store().Call(init);
    if (!reply.ok()) return reply.status();
    return reply->published->number;
  }
  absl::StatusOr<PullReply> PullAt(const SnapshotReference& at) {
    PullRequest pull = {.at = at};
    for (const std::string& key : keys_) pull.entries.push_back({key});
    return Store().Call(pull);
  }
  // Expects that all keys of it are that number.
  void ExpectHas(double value, const SnapshotReference& at) {
    const absl::StatusOr<PullReply> reply = PullAt(at);
    ASSERT_OK(reply.status());
    EXPECT_EQ(reply->snapshot_number, at.number());
    for (const Value& each : reply->values) {
      EXPECT_THAT(each, HasTensor(IsFilledWith(value)));
    }
  }
  uint64_t RetainedBytes() { return Store().Describe()->memory().retained(); }
  absl::StatusOr<CreateSnapshotReply> Make(
      size_t server, CreateSnapshotRequest::Step step,
      const CreateSnapshotReply& reserved = {}) {
    return At(server).Call(StepOf(step, reserved));
  }

  TestCluster cluster_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<Connection>> servers_;
  // One of each server.
  std::vector<std::string> keys_;
};

TEST_F(ClusterSnapshotsTest, AllServersHaveWhatOneCallHasPublished) {
  EXPECT_THAT(Publish(1), IsOkAndHolds(1));
  EXPECT_THAT(Publish(2), IsOkAndHolds(2));
  for (const std::string& key : keys_) {
    ASSERT_OK(Store().Push(key, Full({kElements}, 3)));
  }

  ExpectHas(1, SnapshotOf("s", 1));
  ExpectHas(2, SnapshotOf("s", 2));

  ListRequest list;
  *list.mutable_at() = LatestSnapshot("s");
  ASSERT_OK_AND_ASSIGN(const ListReply page, Store().Call(list));
  EXPECT_THAT(page.keys(), SizeIs(kNumServers));
  EXPECT_EQ(page.snapshot_number(), 2);
  DescribeSnapshotRequest describe;
  *describe.mutable_at() = LatestSnapshot("s");
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply told,
                       Store().Call(describe));
  EXPECT_EQ(told.snapshot().num_keys(), kNumServers);
  EXPECT_EQ(told.snapshot().bytes(), kNumServers * kElements * 4);
  EXPECT_EQ(told.retained_bytes(), kNumServers * kElements * 4);
  EXPECT_THAT(told.snapshot().servers(), SizeIs(kNumServers));
}

TEST_F(ClusterSnapshotsTest, WhatASeriesKeepsNoMoreIsFreeAtOnce) {
  ASSERT_OK(Publish(1, /*keep_last=*/1));
  const uint64_t before = RetainedBytes();
  for (int i = 2; i <= 5; ++i) {
    ASSERT_OK(Publish(i, /*keep_last=*/1));
    // What a series remembers of those that have gone is no memory of values.
    EXPECT_LT(RetainedBytes(), before + kElements);
  }
  ExpectHas(5, SnapshotOf("s", 5));
  EXPECT_THAT(PullAt(SnapshotOf("s", 4)).status(),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "keep_last"))));
}

TEST_F(ClusterSnapshotsTest, NoneIsThereIfAServerRefuses) {
  ASSERT_OK(Publish(1));
  // The second server has no such key.
  PushRequest push = {.publish_as = PublicationOf()};
  push.entries = {{.key = keys_[0], .tensor = Full({kElements}, 2)},
                  {.key = cluster_.KeyOf(1, "", 7), .tensor = Full({1}, 2)}};
  push.publish_as->set_number(5);
  EXPECT_THAT(Store().Call(push).status(), StatusIs(StatusCode::kNotFound));

  ListSnapshotsRequest list;
  ASSERT_OK_AND_ASSIGN(const ListSnapshotsReply listed, Store().Call(list));
  EXPECT_THAT(listed.snapshots(), SizeIs(1));
  // Its number is free again, also where the first server has had a share.
  EXPECT_THAT(Publish(3, 0, 5), IsOkAndHolds(5));
  ExpectHas(3, SnapshotOf("s", 5));
  EXPECT_THAT(Publish(4, 0, 5), HasReason(Reason::kSnapshotNumberPassed));
}

TEST_F(ClusterSnapshotsTest, WhatIsPreparedIsNoSnapshotBeforeItIsNamed) {
  ASSERT_OK(Publish(1));
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply reserved,
                       Make(home(), CreateSnapshotRequest::RESERVE));
  EXPECT_EQ(reserved.number(), 2);
  for (size_t i = 0; i < kNumServers; ++i) {
    ASSERT_OK(Make(i, CreateSnapshotRequest::PREPARE, reserved));
  }
  // Its maker has died.
  EXPECT_THAT(PullAt(SnapshotOf("s", 2)).status(),
              HasReason(Reason::kSnapshotNotFound));
  EXPECT_THAT(PullAt(LatestSnapshot("s")), IsOk());
  EXPECT_THAT(Publish(3), IsOkAndHolds(3));
  ExpectHas(3, SnapshotOf("s", 3));

  // Or has been slow: nobody goes back by that.
  ASSERT_OK(Make(home(), CreateSnapshotRequest::NAME, reserved));
  ASSERT_OK_AND_ASSIGN(const PullReply latest, PullAt(LatestSnapshot("s")));
  EXPECT_EQ(latest.snapshot_number, 3);
  EXPECT_THAT(Make(other(), CreateSnapshotRequest::NAME, reserved).status(),
              HasReason(Reason::kWrongServer));
}

TEST_F(ClusterSnapshotsTest, AServerLetsGoOfWhatTheHomeDoesNotName) {
  ASSERT_OK(Publish(1));
  // By a client that dies before it tells the others.
  DeleteSnapshotRequest gone;
  gone.set_series("s");
  DescribeSnapshotRequest describe;
  *describe.mutable_at() = SnapshotOf("s", 1);
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply told,
                       At(home()).Call(describe));
  ASSERT_OK(At(home()).Call(gone));

  describe.mutable_at()->set_uid(told.snapshot().uid());
  EXPECT_TRUE(Eventually(
      [&] { return absl::IsNotFound(At(other()).Call(describe).status()); }));
}

TEST_F(ClusterSnapshotsTest, AReaderFindsKeysThatHaveMoved) {
  ASSERT_OK(Publish(1));
  std::vector<uint32_t> owners = cluster_.placement().owners;
  const uint32_t of_home = PartitionOf("", "", 64);
  for (uint32_t i = 0; i < 64; ++i) {
    if (i != of_home) owners[i] = (owners[i] + 1) % kNumServers;
  }
  cluster_.SetOwners(owners);
  Reconnect();
  for (const std::string& key : keys_) {
    ASSERT_OK(Store().Init(key, Full({kElements}, 7)));
  }

  ExpectHas(1, SnapshotOf("s", 1));

  StatRequest stat;
  for (const std::string& key : keys_) stat.add_keys(key);
  *stat.mutable_at() = SnapshotOf("s", 1);
  ASSERT_OK_AND_ASSIGN(const StatReply told, Store().Call(stat));
  EXPECT_EQ(told.snapshot_number(), 1);
  EXPECT_EQ(told.keys(1).key(), keys_[1]);
  stat.add_keys("none");
  EXPECT_THAT(
      Store().Call(stat).status(),
      HasReasonAbout(Reason::kKeyNotFound, Contains(Pair("key", "none"))));
}

TEST_F(ClusterSnapshotsTest, WhatAServerHadThatWasStartedAnewIsLost) {
  ASSERT_OK(Publish(1));
  cluster_.Restart(other());
  Reconnect();

  EXPECT_THAT(PullAt(SnapshotOf("s", 1)).status(),
              HasReason(Reason::kSnapshotLost));
  ListRequest list;
  *list.mutable_at() = LatestSnapshot("s");
  EXPECT_THAT(Store().Call(list).status(), HasReason(Reason::kSnapshotLost));
  EXPECT_THAT(Publish(2), IsOkAndHolds(2));
  ExpectHas(2, SnapshotOf("s", 2));
  // The others let go of what they have of the first.
  DescribeSnapshotRequest describe;
  *describe.mutable_at() = SnapshotOf("s", 1);
  EXPECT_TRUE(Eventually([&] {
    return ReasonOf(At(home()).Call(describe).status()) ==
           Reason::kSnapshotLost;
  }));
}

TEST_F(ClusterSnapshotsTest, AHomeThatWasStartedAnewHasNone) {
  ASSERT_OK(Publish(1));
  DescribeSnapshotRequest describe;
  *describe.mutable_at() = SnapshotOf("s", 1);
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply told,
                       Store().Call(describe));
  describe.mutable_at()->set_uid(told.snapshot().uid());
  ASSERT_OK(At(other()).Call(describe));
  cluster_.Restart(home());
  Reconnect();

  EXPECT_THAT(PullAt(LatestSnapshot("s")).status(),
              HasReason(Reason::kSnapshotNotFound));
  EXPECT_TRUE(Eventually(
      [&] { return absl::IsNotFound(At(other()).Call(describe).status()); }));
  EXPECT_THAT(Publish(2), IsOk());
  ExpectHas(2, SnapshotOf("s", 1));
}

class SplitSnapshotsTest : public ClusterSnapshotsTest {
 protected:
  SplitSnapshotsTest() : ClusterSnapshotsTest(/*split_bytes=*/1 << 20) {}
};

TEST_F(SplitSnapshotsTest, ASnapshotHasTheSlicesOfItsKeys) {
  const Shape large = {1 << 10, 1 << 10};
  InitRequest init = {.on_existing = OnExisting::kReplace,
                      .publish_as = PublicationOf()};
  init.publish_as->add_prefixes("a/");
  init.entries = {{"a/large", Full(large, 1)}, {"a/small", Full({2}, 1)}};
  ASSERT_OK(Store().Init("b/large", Full(large, 5)));
  ASSERT_OK(Store().Call(init));
  // The key has another layout by now.
  ASSERT_OK(Store().Init("a/large", Full({1 << 12, 1 << 10}, 2),
                         OnExisting::kReplace));
  ASSERT_OK(Store().Init("b/large", Full({2}, 2), OnExisting::kReplace));

  PullRequest pull = {.at = LatestSnapshot("s")};
  pull.entries = {{"a/large"}, {"a/small"}};
  ASSERT_OK_AND_ASSIGN(const PullReply read, Store().Call(pull));
  EXPECT_EQ(read.snapshot_number, 1);
  EXPECT_EQ(read.values[0].tensor.shape(), large);
  for (const Value& value : read.values) {
    EXPECT_THAT(value, HasTensor(IsFilledWith(1)));
  }
  pull.entries = {{"b/large"}};
  EXPECT_THAT(Store().Call(pull).status(), StatusIs(StatusCode::kNotFound));
  ListRequest list;
  list.set_prefix("a/");
  *list.mutable_at() = LatestSnapshot("s");
  ASSERT_OK_AND_ASSIGN(const ListReply page, Store().Call(list));
  ASSERT_THAT(page.keys(), SizeIs(2));
  EXPECT_EQ(page.keys(0).key(), "a/large");
  EXPECT_THAT(page.keys(0).shape(), ElementsAre(1 << 10, 1 << 10));
}

TEST(MirroredSnapshotsTest, TheHomeHasAllOfThem) {
  const TestCluster cluster(kNumServers);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "m");
  ASSERT_OK(
      store.Create({.mode = Mode::kSync, .num_workers = 3, .mirrored = true}));
  InitRequest init = {.entries = {{"w", Full({4}, 1)}},
                      .publish_as = PublicationOf()};
  ASSERT_OK_AND_ASSIGN(const InitReply made, store.Call(init));
  EXPECT_EQ(made.published->number, 1);
  CreateSnapshotRequest create;
  create.set_series("s");
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply taken, store.Call(create));
  EXPECT_EQ(taken.number(), 2);
  const PullRequest pull = {.entries = {{"w"}}, .at = LatestSnapshot("s")};
  ASSERT_OK_AND_ASSIGN(const PullReply read, store.Call(pull));
  EXPECT_EQ(read.snapshot_number, 2);
}

}  // namespace cluster_snapshots_test
}  // namespace tensorkv::testing
