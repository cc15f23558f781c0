// Snapshots of three servers that are one store.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "contract/call_fields.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "tests/client/cluster/cluster_snapshots_fixture.h"
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

// Asks again and again until `condition` holds; false after a minute.
bool Eventually(absl::FunctionRef<bool()> condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
  }
  return true;
}

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
  CreateSnapshotRequest name = StepOf(CreateSnapshotRequest::NAME, reserved);
  for (size_t i = 0; i < kNumServers; ++i) {
    ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply prepared,
                         Make(i, CreateSnapshotRequest::PREPARE, reserved));
    CreateSnapshotRequest::Share& share = *name.add_shares();
    share.set_server(cluster_.placement().servers[i].name);
    share.set_incarnation(prepared.incarnation());
    share.set_revision(prepared.revision());
  }
  // Its maker has died.
  EXPECT_THAT(PullAt(SnapshotOf("s", 2)).status(),
              HasReason(Reason::kSnapshotNotFound));
  EXPECT_THAT(PullAt(LatestSnapshot("s")), IsOk());
  EXPECT_THAT(Publish(3), IsOkAndHolds(3));
  ExpectHas(3, SnapshotOf("s", 3));

  // Or has been slow: nobody goes back by that.
  EXPECT_THAT(At(home()).Call(name), HasReason(Reason::kSnapshotNumberPassed));
  EXPECT_THAT(Make(other(), CreateSnapshotRequest::NAME, reserved),
              HasReason(Reason::kWrongServer));
}

TEST_F(ClusterSnapshotsTest, ACallWhoseTimeIsOverLeavesNothing) {
  ASSERT_OK(Publish(1));
  cluster_.Stop(other());
  InitRequest init = {
      .entries = {{cluster_.KeyOf(home(), "", 7), Full({4}, 1)}},
      .publish_as = PublicationOf()};

  // It was made, and might be published yet.
  EXPECT_THAT(Store().WithTimeout(absl::Milliseconds(500)).Call(init),
              HasReason(Reason::kOutcomeUnknown));

  EXPECT_EQ(Make(home(), CreateSnapshotRequest::RESERVE)->number(), 2);
}

TEST_F(ClusterSnapshotsTest, ACallThatIsRepeatedHasItsAnswerOrNone) {
  CreateSnapshotRequest create;
  create.set_series("s");
  SetCallId({.client_id = "c", .sequence = 1}, create);
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply taken, Store().Call(create));
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply again, Store().Call(create));
  EXPECT_EQ(again.uid(), taken.uid());
  DeleteSnapshotRequest all;
  all.set_series("s");
  ASSERT_OK(Store().Call(all));

  EXPECT_THAT(Store().Call(create), HasReason(Reason::kSnapshotLost));
}

TEST_F(ClusterSnapshotsTest, AnInitWhoseSnapshotHasGoneIsNotMadeAgain) {
  InitRequest init = {.call_id = CallId{.client_id = "c", .sequence = 1},
                      .on_existing = OnExisting::kReplace,
                      .publish_as = PublicationOf(/*keep_last=*/1)};
  for (const std::string& key : keys_) {
    init.entries.push_back({key, Full({kElements}, 1)});
  }
  ASSERT_OK(Store().Call(init));
  ASSERT_OK(Publish(2, /*keep_last=*/1));

  EXPECT_THAT(Store().Call(init), HasReason(Reason::kOutcomeUnknown));

  ExpectHas(2, SnapshotOf("s", 2));
  EXPECT_THAT(PullAt(LatestSnapshot("s"))->snapshot_number, 2);
  EXPECT_THAT(Store().Pull(keys_[0]), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_F(ClusterSnapshotsTest, ARepeatThatCannotBePreparedHasTheFirstAnswer) {
  ASSERT_OK(Publish(1));
  CreateSnapshotRequest create;
  create.set_series("s");
  SetCallId({.client_id = "c", .sequence = 1}, create);
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply taken, Store().Call(create));
  MoveAllButHome();
  Reconnect();

  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply again, Store().Call(create));

  EXPECT_EQ(again.number(), taken.number());
  EXPECT_EQ(again.uid(), taken.uid());
  EXPECT_OK(PullAt(SnapshotOf("s", taken.number())));
}

TEST_F(ClusterSnapshotsTest, NothingIsMadeThatCannotBePublished) {
  const std::string& key = keys_[home()];
  ASSERT_OK(Store().Init(key, Full({4}, 1)));
  const uint32_t lost = PartitionOf("", keys_[other()], 64);
  cluster_.SetLost({{.server = "gone", .partitions = {lost}}});
  PushRequest push = {.entries = {{.key = key, .tensor = Full({4}, 2)}},
                      .publish_as = PublicationOf()};
  CreateSnapshotRequest create;
  create.set_series("s");
  Reconnect();

  EXPECT_THAT(Store().Call(push), HasReason(Reason::kKeyNotRestored));
  EXPECT_THAT(Store().Call(create), HasReason(Reason::kKeyNotRestored));
  EXPECT_THAT(Store().Pull(key), IsOkAndHolds(HasTensor(IsFilledWith(1))));

  cluster_.SetLost({});
  ASSERT_OK_AND_ASSIGN(const PushReply pushed, Store().Call(push));
  EXPECT_EQ(pushed.published->number, 1);
}

TEST_F(ClusterSnapshotsTest, ASnapshotIsOfOneNamespace) {
  const Caller store(*connection_, "n");
  ASSERT_OK(store.Create({}));
  CreateSnapshotRequest create;
  create.set_series("s");
  ASSERT_OK(store.Call(create));
  // By a client that dies before it comes to the others.
  const Caller at_home(*servers_[cluster_.HomeOf("n")], "n");
  ASSERT_OK(at_home.Drop());
  ASSERT_OK(at_home.Create({}));

  EXPECT_THAT(store.Call(create), HasReason(Reason::kNamespaceReplaced));

  ASSERT_OK(store.Drop());
  ASSERT_OK(store.Create({}));
  EXPECT_OK(store.Call(create));
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
  MoveAllButHome();
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

// Some publish, some read, while servers lose what they have.
class DisturbedSnapshotsTest : public ClusterSnapshotsTest {
 protected:
  DisturbedSnapshotsTest() {
    keys_.clear();
    for (size_t i = 0; i < 4 * kNumServers; ++i) {
      keys_.push_back(cluster_.KeyOf(i % kNumServers, "", static_cast<int>(i)));
    }
  }

  // Publishes states, all of whose elements are one number.
  void PublishOn(int first) {
    std::unique_ptr<Connection> connection = cluster_.Connect();
    for (int i = first; !has_ended_; ++i) {
      InitRequest init = {.on_existing = OnExisting::kReplace,
                          .publish_as = PublicationOf(/*keep_last=*/3)};
      for (const std::string& key : keys_) {
        init.entries.push_back({key, Full({4}, i)});
      }
      if (Caller(*connection, "").Call(init).ok()) {
        ++num_published_;
      } else {
        connection = cluster_.Connect();
      }
    }
  }
  absl::StatusOr<PullReply> PullBy(Connection& connection,
                                   const SnapshotReference& at) {
    PullRequest pull = {.at = at};
    for (const std::string& key : keys_) pull.entries.push_back({key});
    return Caller(connection, "").Call(pull);
  }
  static bool MayFailSo(const absl::Status& status) {
    const Reason reason = ReasonOf(status);
    return reason == Reason::kSnapshotLost ||
           reason == Reason::kSnapshotNotFound ||
           reason == Reason::kServerRestarted || absl::IsUnavailable(status);
  }
  // Returns the number of which the state is.
  static double ExpectIsWhole(const PullReply& reply) {
    const double value = ElementsOf(reply.values[0].tensor)[0];
    for (const Value& each : reply.values) {
      EXPECT_THAT(each, HasTensor(IsFilledWith(value)));
    }
    return value;
  }
  void ReadOn() {
    std::unique_ptr<Connection> connection = cluster_.Connect();
    for (uint64_t last = 0; !has_ended_;) {
      const absl::StatusOr<PullReply> latest =
          PullBy(*connection, LatestSnapshot("s"));
      if (!latest.ok()) {
        EXPECT_TRUE(MayFailSo(latest.status())) << latest.status();
        if (absl::IsNotFound(latest.status())) continue;
        // A home that was started anew begins at 1.
        connection = cluster_.Connect();
        last = 0;
        continue;
      }
      const double value = ExpectIsWhole(*latest);
      EXPECT_GE(latest->snapshot_number, last);
      last = latest->snapshot_number;
      const absl::StatusOr<PullReply> again =
          PullBy(*connection, SnapshotOf("s", last));
      if (again.ok()) {
        EXPECT_EQ(ExpectIsWhole(*again), value);
      } else {
        EXPECT_TRUE(MayFailSo(again.status())) << again.status();
      }
    }
  }
  // Waits until some more are published.
  bool AwaitSome() {
    const int some = num_published_ + 4;
    return Eventually([&] { return num_published_ >= some; });
  }

  std::atomic<bool> has_ended_ = false;
  std::atomic<int> num_published_ = 0;
};

TEST_F(DisturbedSnapshotsTest, EachIsWholeOrLost) {
  std::vector<std::thread> threads;
  for (const int first : {0, 10'000}) {
    threads.emplace_back([this, first] { PublishOn(first); });
  }
  for (int i = 0; i < 2; ++i) threads.emplace_back([this] { ReadOn(); });
  for (size_t i = 0; i < 2 * kNumServers && AwaitSome(); ++i) {
    cluster_.Restart(i % kNumServers);
  }

  EXPECT_TRUE(AwaitSome());
  has_ended_ = true;
  for (std::thread& thread : threads) thread.join();
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
