// What clients see while the servers of their cluster come and go.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "client/cluster/connect.h"
#include "client/worker_client.h"
#include "contract/placement.h"
#include "contract/request_fields.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/contracts/caller.h"
#include "tests/integration/etcd_process.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/test_device.h"

namespace tensorkv {
namespace cluster_resize_test {

using testing::Background;
using testing::ElementsOf;
using testing::EtcdProcess;
using testing::IsOkAndHolds;
using testing::StatusIs;
using testing::TestDeviceChoice;
using testing::Vector;

constexpr int kNumKeys = 30;

std::string Key(int i) { return absl::StrCat("w", i); }

// One server, "s0", has everything; others may come.
class ClusterResizeTest : public ::testing::Test {
 protected:
  ClusterResizeTest() { Start("s0"); }

  void Start(const std::string& name) {
    ServerOptions options = {.listen = "127.0.0.1:0",
                             .device = TestDeviceChoice(),
                             .budget_bytes = 1 << 28,
                             .num_threads = 1};
    options.cluster = ClusterOptions{.etcd = {etcd_.address()},
                                     .server_name = name,
                                     .num_partitions = 32,
                                     .lease = absl::Seconds(2)};
    servers_[name] = Server::Create(options).value();
  }
  ClientOptions Options() const {
    return {.target = absl::StrCat("cluster:", servers_.at("s0")->address()),
            .name_space = "train"};
  }
  // Asks until the servers that are wanted have everything.
  static absl::Status Resize(Client& client,
                             const std::vector<std::string>& add,
                             const std::vector<std::string>& remove) {
    ResizeClusterRequest request;
    request.mutable_add()->Add(add.begin(), add.end());
    request.mutable_remove()->Add(remove.begin(), remove.end());
    while (true) {
      const absl::StatusOr<ResizeClusterReply> reply =
          client.ResizeCluster(request);
      if (!reply.ok()) {
        // A server that was started may register at any moment.
        if (absl::IsNotFound(reply.status())) continue;
        return reply.status();
      }
      if (reply->partitions_to_move() == 0) return absl::OkStatus();
    }
  }

  static bool IsListed(Client& client, const std::string& name) {
    const DescribeClusterReply cluster = client.DescribeCluster().value();
    return absl::c_any_of(
        cluster.placement().servers(),
        [&](const v1::ClusterServer& server) { return server.name() == name; });
  }

  EtcdProcess etcd_;
  std::map<std::string, std::unique_ptr<Server>> servers_;
};

TEST_F(ClusterResizeTest, PushesCountOnceWhileServersComeAndGo) {
  const auto client = Client::Connect(Options()).value();
  ASSERT_OK(client->CreateNamespace(
      "train", {.rule = ParseRuleSpec("accumulate").value()}));
  for (int i = 0; i < kNumKeys; ++i) {
    ASSERT_OK(client->Init(Key(i), Vector(std::vector<double>{0})));
  }
  std::atomic<bool> is_over = false;
  std::atomic<int> num_pushed = 0;
  Background pusher([&]() -> absl::Status {
    const auto other = Client::Connect(Options()).value();
    while (!is_over) {
      std::vector<PushEntry> entries;
      for (int i = 0; i < kNumKeys; ++i) {
        entries.push_back(
            {.key = Key(i), .tensor = Vector(std::vector<double>{1})});
      }
      const absl::Status status = other->Push(std::move(entries)).status();
      if (!status.ok()) return status;
      ++num_pushed;
    }
    return absl::OkStatus();
  });

  Background lister([&]() -> absl::Status {
    const auto other = Client::Connect(Options()).value();
    while (!is_over) {
      ASSIGN_OR_RETURN(const ListReply reply, other->List());
      EXPECT_EQ(reply.keys_size(), kNumKeys);
    }
    return absl::OkStatus();
  });

  Start("s1");
  EXPECT_OK(Resize(*client, {"s1"}, {}));
  Start("s2");
  EXPECT_OK(Resize(*client, {"s2"}, {"s0"}));
  is_over = true;

  ASSERT_OK(pusher.Result());
  ASSERT_OK(lister.Result());
  ASSERT_GT(num_pushed, 0);
  for (int i = 0; i < kNumKeys; ++i) {
    ASSERT_OK_AND_ASSIGN(const Value value, client->Pull(Key(i)));
    EXPECT_EQ(ElementsOf(value.tensor)[0], num_pushed);
  }
  // It has nothing any more, and leaves the placement with its next attempt.
  while (IsListed(*client, "s0")) {
  }
}

// Two workers, who join at servers that come, and a home that moves.
TEST_F(ClusterResizeTest, TrainingGoesOnWhileServersComeAndGo) {
  const auto client = Client::Connect(Options()).value();
  ASSERT_OK(client->CreateNamespace(
      "train", {.mode = Mode::kSync,
                .num_workers = 2,
                .rule = ParseRuleSpec("accumulate").value()}));
  for (int i = 0; i < kNumKeys; ++i) {
    ASSERT_OK(client->Init(Key(i), Vector(std::vector<double>{0})));
  }
  std::atomic<Step> last_step = UINT64_MAX;
  std::atomic<Step> reached = 0;
  const auto train = [&](WorkerClient& worker) -> absl::Status {
    for (Step step = worker.Resume(); step <= last_step;
         step = worker.Resume()) {
      std::vector<PushEntry> gradients;
      for (int i = 0; i < kNumKeys; ++i) {
        gradients.push_back(
            {.key = Key(i), .tensor = Vector(std::vector<double>{1})});
      }
      const absl::Status status =
          worker.PushPull(step, std::move(gradients)).status();
      if (!status.ok()) return status;
      reached = std::max<Step>(reached, step);
    }
    return absl::OkStatus();
  };
  std::vector<std::unique_ptr<WorkerClient>> workers;
  for (const char* name : {"a", "b"}) {
    workers.push_back(WorkerClient::Join(Options(), {.name = name}).value());
  }
  Background first([&] { return train(*workers[0]); });
  Background second([&] { return train(*workers[1]); });

  Start("s1");
  EXPECT_OK(Resize(*client, {"s1"}, {}));
  EXPECT_OK(Resize(*client, {}, {"s0"}));
  // Both come to it: no worker is more than a step ahead.
  last_step = reached + 3;

  ASSERT_OK(first.Result());
  ASSERT_OK(second.Result());
  for (int i = 0; i < kNumKeys; ++i) {
    ASSERT_OK_AND_ASSIGN(const Value value, client->Pull(Key(i)));
    EXPECT_EQ(ElementsOf(value.tensor)[0], 2.0 * last_step);
  }
}

// A client that takes snapshots, and learns of other servers by that.
class ResizedSnapshotsTest : public ClusterResizeTest {
 protected:
  ResizedSnapshotsTest() {
    for (int i = 0; i < kNumKeys; ++i) {
      EXPECT_OK(store_.Init(Key(i), Vector(std::vector<double>{1})));
    }
  }

  absl::StatusOr<uint64_t> Create() {
    CreateSnapshotRequest create;
    create.set_series("s");
    SetCallId({.client_id = "c", .sequence = ++num_calls_}, create);
    ASSIGN_OR_RETURN(const CreateSnapshotReply taken, store_.Call(create));
    return taken.number();
  }
  absl::StatusOr<uint64_t> Push(int key, double value) {
    PushRequest push;
    push.entries = {
        {.key = Key(key), .tensor = Vector(std::vector<double>{value})}};
    push.call_id = CallId{.client_id = "c", .sequence = ++num_calls_};
    push.publish_as.emplace();
    push.publish_as->set_series("s");
    ASSIGN_OR_RETURN(const PushReply pushed, store_.Call(push));
    return pushed.published->number;
  }
  // Expects that a snapshot has all keys, in shares of that many servers.
  void ExpectIsWhole(uint64_t number, int num_servers) {
    DescribeSnapshotRequest describe;
    *describe.mutable_at() = SnapshotOf("s", number);
    ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply told,
                         store_.Call(describe));
    EXPECT_EQ(told.snapshot().servers_size(), num_servers);
    PullRequest pull = {.at = SnapshotOf("s", number)};
    for (int i = 0; i < kNumKeys; ++i) pull.entries.push_back({Key(i)});
    EXPECT_OK(store_.Call(pull));
  }
  std::string Home() {
    const DescribeClusterReply cluster = client_->DescribeCluster().value();
    const auto& placement = cluster.placement();
    const uint32_t partition = PartitionOf("", "", placement.owners_size());
    return placement.servers(placement.owners(partition)).name();
  }

  uint64_t num_calls_ = 0;
  const std::unique_ptr<Client> client_ = Client::Connect(Options()).value();
  const std::unique_ptr<Connection> connection_ =
      ConnectTo({.target = Options().target}, nullptr, Backoff()).value();
  const testing::Caller store_{*connection_, ""};
};

TEST_F(ResizedSnapshotsTest, OneIsWholeForWhoHasKnownOneServer) {
  Start("s1");
  EXPECT_OK(Resize(*client_, {"s1"}, {}));

  EXPECT_THAT(Create(), IsOkAndHolds(1));

  ExpectIsWhole(1, /*num_servers=*/2);
}

TEST_F(ResizedSnapshotsTest, APushIsPublishedByWhoHasKnownOneServer) {
  Start("s1");
  EXPECT_OK(Resize(*client_, {"s1"}, {}));

  EXPECT_THAT(Push(0, 2), IsOkAndHolds(1));

  ExpectIsWhole(1, /*num_servers=*/2);
}

TEST_F(ResizedSnapshotsTest, OneServerTakesPartsAndSeveralDoNot) {
  const auto push_part = [this](int key, uint64_t number, uint32_t index) {
    PushRequest push;
    push.entries = {
        {.key = Key(key), .tensor = Vector(std::vector<double>{3})}};
    push.publish_as.emplace();
    push.publish_as->set_series("s");
    push.publish_as->set_number(number);
    push.publish_as->mutable_part()->set_index(index);
    push.publish_as->mutable_part()->set_count(2);
    return store_.Call(push);
  };
  EXPECT_THAT(Push(0, 2), IsOkAndHolds(1));
  EXPECT_OK(push_part(0, 2, 0));
  ASSERT_OK_AND_ASSIGN(const PushReply last, push_part(1, 2, 1));
  ASSERT_TRUE(last.published.has_value());
  EXPECT_EQ(last.published->parts_missing, 0);
  EXPECT_OK(store_.Call(
      PullRequest{.entries = {{Key(0)}, {Key(1)}}, .at = SnapshotOf("s", 2)}));
  EXPECT_OK(push_part(0, 3, 0));
  Start("s1");
  EXPECT_OK(Resize(*client_, {"s1"}, {}));

  for (int key = 0; key < kNumKeys; ++key) {
    absl::Status status;
    do {  // the last keys may be on their way
      status = push_part(key, 3, 1).status();
    } while (absl::IsUnavailable(status));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented));
  }
}

TEST_F(ResizedSnapshotsTest, NumbersGoOnWhereTheHomeMoves) {
  EXPECT_THAT(Create(), IsOkAndHolds(1));
  Start("s1");
  EXPECT_OK(Resize(*client_, {"s1"}, {}));
  EXPECT_THAT(Push(0, 2), IsOkAndHolds(2));
  Start("s2");
  const std::string home = Home();
  EXPECT_OK(Resize(*client_, {"s2"}, {home}));
  while (Home() == home) {
  }

  // Those before have gone with their home.
  EXPECT_THAT(store_.Call(PullRequest{.entries = {{Key(0)}},
                                      .at = LatestSnapshot("s")}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Create(), IsOkAndHolds(3));
  EXPECT_THAT(Push(1, 3), IsOkAndHolds(4));
  ExpectIsWhole(3, /*num_servers=*/2);
  ExpectIsWhole(4, /*num_servers=*/2);
}

}  // namespace cluster_resize_test
}  // namespace tensorkv
