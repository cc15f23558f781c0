// What clients see when a server of their cluster is gone for good, and the
// others take over what it had.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/internal/transfer/grpc_connection.h"
#include "client/worker_client.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/integration/etcd_process.h"
#include "tests/testing/background.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/test_device.h"

namespace tensorkv {
namespace cluster_loss_test {

using testing::Background;
using testing::ElementsOf;
using testing::EtcdProcess;
using testing::HasReason;
using ::testing::HasSubstr;
using testing::TestDeviceChoice;
using testing::Vector;

constexpr int kNumKeys = 30;
constexpr int kNumServers = 3;

std::string Key(int i) { return absl::StrCat("w", i); }

std::vector<PushEntry> OnesForAll() {
  std::vector<PushEntry> entries;
  for (int i = 0; i < kNumKeys; ++i) {
    entries.push_back(
        {.key = Key(i), .tensor = Vector(std::vector<double>{1})});
  }
  return entries;
}

// Servers "s0" to "s2", whose checkpoints all of them see.
class ClusterLossTest : public ::testing::Test {
 protected:
  ClusterLossTest() { std::filesystem::remove_all(directory_); }
  ~ClusterLossTest() override {
    servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  void StartAll() {
    for (int i = 0; i < kNumServers; ++i) Start(absl::StrCat("s", i));
    target_ = absl::StrCat("cluster:", servers_.at("s0")->address(), ",",
                           servers_.at("s2")->address());
    client_ = Connect();
    while (!client_->DescribeCluster().ok()) {
    }
  }
  void Start(const std::string& name) {
    ServerOptions options = {
        .listen = "127.0.0.1:0",
        .device = TestDeviceChoice(),
        .budget_bytes = 1 << 28,
        .num_threads = 1,
        .checkpoint_dir = absl::StrCat(directory_, "/", name)};
    options.cluster =
        ClusterOptions{.etcd = {etcd_.address()},
                       .server_name = name,
                       .size = kNumServers,
                       .num_partitions = 32,
                       .lease = absl::Seconds(2),
                       .checkpoints = sees_checkpoints_ ? directory_ : "",
                       .lost_after = lost_after_};
    servers_[name] = Server::Create(options).value();
  }
  // It saves nothing, and tells nobody but etcd.
  void End(const std::string& name) { servers_.erase(name); }

  std::unique_ptr<Client> Connect() const {
    return Client::Connect({.target = target_, .name_space = "train"}).value();
  }
  void CreateKeys(const NamespaceConfig& config) {
    ASSERT_OK(client_->CreateNamespace("train", config));
    for (int i = 0; i < kNumKeys; ++i) {
      ASSERT_OK(client_->Init(Key(i), Vector(std::vector<double>{0})));
    }
  }
  std::string OwnerOfKey(const std::string& key) {
    const ClusterPlacement placement =
        FromProto(client_->DescribeCluster().value().placement()).value();
    return placement.servers[OwnerOf(placement, "train", key)].name;
  }
  // A key of the server, or of another one.
  std::string KeyOf(const std::string& server, bool is_its = true) {
    int i = 0;
    while ((OwnerOfKey(Key(i)) == server) != is_its) ++i;
    return Key(i);
  }

  absl::Status Lose(const std::string& name, bool give_up = false) {
    ResizeClusterRequest request;
    request.add_lost(name);
    request.set_give_up(give_up);
    return client_->ResizeCluster(request).status();
  }
  // Returns when the others have what a lost server had.
  void AwaitRestored() {
    while (true) {
      const auto cluster = client_->DescribeCluster();
      if (!cluster.ok()) continue;
      const v1::ClusterPlacement& placement = cluster->placement();
      if (placement.servers_size() < kNumServers && placement.lost().empty()) {
        return;
      }
    }
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/cluster-loss");
  bool sees_checkpoints_ = true;
  absl::Duration lost_after_;
  EtcdProcess etcd_;
  std::map<std::string, std::unique_ptr<Server>> servers_;
  std::string target_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClusterLossTest, OthersHaveTheKeysAsTheLastCheckpointHasThem) {
  StartAll();
  CreateKeys({.rule = ParseRuleSpec("accumulate").value()});
  ASSERT_OK(client_->Push(OnesForAll()));
  ASSERT_OK(client_->SaveCheckpoint());
  ASSERT_OK(client_->Push(OnesForAll()));
  const std::string lost = KeyOf("s1");
  const std::string kept = KeyOf("s1", /*is_its=*/false);
  ASSERT_OK_AND_ASSIGN(const Value before, client_->Pull(lost));
  EXPECT_TRUE(absl::IsFailedPrecondition(Lose("s1")));
  End("s1");

  ASSERT_OK(Lose("s1"));
  AwaitRestored();

  // This one has seen what is lost.
  EXPECT_THAT(client_->Pull(lost).status(),
              HasReason(Reason::kServerRestarted));
  const auto other = Connect();
  EXPECT_EQ(ElementsOf(other->Pull(lost)->tensor)[0], 1);
  EXPECT_EQ(ElementsOf(other->Pull(kept)->tensor)[0], 2);
  ASSERT_OK(other->Push(lost, Vector(std::vector<double>{5})));
  ASSERT_OK_AND_ASSIGN(const Value after, other->Pull(lost));
  EXPECT_EQ(ElementsOf(after.tensor)[0], 6);
  EXPECT_GT(after.version, before.version);

  // As a worker it takes the servers as they are.
  EXPECT_OK(WorkerClient::Join(std::move(client_), {.name = "late"}));
}

TEST_F(ClusterLossTest, LostServerThatComesBackOwnsNothing) {
  StartAll();
  CreateKeys({});
  ASSERT_OK(client_->SaveCheckpoint());
  const std::string lost = KeyOf("s1");
  End("s1");
  ASSERT_OK(Lose("s1"));
  AwaitRestored();

  Start("s1");

  const auto direct = Client::Connect({.target = servers_.at("s1")->address(),
                                       .name_space = "train"})
                          .value();
  absl::Status status;
  do {
    status = direct->Pull(lost).status();
  } while (absl::IsUnavailable(status));
  EXPECT_THAT(status, HasReason(Reason::kWrongServer));
  EXPECT_NE(OwnerOfKey(lost), "s1");
}

TEST_F(ClusterLossTest, WhatIsNotRestoredIsNamedUntilItIsGivenUp) {
  sees_checkpoints_ = false;
  StartAll();
  CreateKeys({});
  const std::string lost = KeyOf("s1");
  const std::string kept = KeyOf("s1", /*is_its=*/false);
  ASSERT_OK(client_->Push(lost, Vector(std::vector<double>{2})));
  ASSERT_OK_AND_ASSIGN(const Value before, client_->Pull(lost));
  End("s1");
  ASSERT_OK(Lose("s1"));

  const auto hasty = Client::Connect({.target = target_,
                                      .name_space = "train",
                                      .timeout = absl::Seconds(3)})
                         .value();
  EXPECT_THAT(hasty->Pull(lost).status(), HasReason(Reason::kKeyNotRestored));
  EXPECT_THAT(hasty->List().status(), HasReason(Reason::kKeyNotRestored));
  EXPECT_OK(hasty->Pull(kept));

  ASSERT_OK(Lose("s1", /*give_up=*/true));
  AwaitRestored();
  EXPECT_THAT(hasty->Pull(lost).status(), HasReason(Reason::kKeyNotFound));
  ASSERT_OK(hasty->Init(lost, Vector(std::vector<double>{3})));
  EXPECT_GT(hasty->Pull(lost)->version, before.version);
}

TEST_F(ClusterLossTest, ServerThatStaysAwayIsLostByItself) {
  lost_after_ = absl::Seconds(4);
  StartAll();
  CreateKeys({.rule = ParseRuleSpec("accumulate").value()});
  ASSERT_OK(client_->Push(OnesForAll()));
  ASSERT_OK(client_->SaveCheckpoint());

  End("s1");

  AwaitRestored();
  const auto other = Connect();
  for (int i = 0; i < kNumKeys; ++i) {
    EXPECT_EQ(ElementsOf(other->Pull(Key(i))->tensor)[0], 1);
  }
}

// Others may have taken what it has, and do if they can.
TEST_F(ClusterLossTest, WaitsEndAtWhoeverIsOutOfTouchForTooLong) {
  lost_after_ = absl::Seconds(4);
  StartAll();
  CreateKeys({});
  // Without retries.
  const auto direct =
      GrpcConnection::Create({.target = servers_.at("s1")->address()}).value();
  PullRequest pull = {.name_space = "train"};
  pull.entries.push_back({.key = KeyOf("s1"), .min_version = 100});
  Background waits([&] {
    return direct->Call(pull, {.timeout = absl::Minutes(1)}).status();
  });
  const DescribeNamespaceRequest describe = testing::DescribeOf("train");
  while (direct->Call(describe).value().status().calls_waiting() == 0) {
  }

  etcd_.Stop();

  const absl::Status status = waits.Result();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("no placement"));
}

// The home of the namespace is lost, with its ranks, epochs and some keys.
TEST_F(ClusterLossTest, TrainingGoesOnWithAnotherHome) {
  StartAll();
  CreateKeys({.mode = Mode::kSync,
              .num_workers = 2,
              .rule = ParseRuleSpec("accumulate").value()});
  const std::string home = OwnerOfKey("");
  std::atomic<Step> last_step = UINT64_MAX;
  std::atomic<Step> reached = 0;
  const auto train = [&](WorkerClient& worker) -> absl::Status {
    for (Step step = worker.Resume(); step <= last_step;
         step = worker.Resume()) {
      const absl::Status status = worker.PushPull(step, OnesForAll()).status();
      if (worker.state() == WorkerState::kGoneBack) continue;
      if (!status.ok()) return status;
      reached = std::max<Step>(reached, step);
    }
    return absl::OkStatus();
  };
  std::vector<std::unique_ptr<WorkerClient>> workers;
  for (const char* name : {"a", "b"}) {
    workers.push_back(
        WorkerClient::Join({.target = target_, .name_space = "train"},
                           {.name = name})
            .value());
  }
  Background first([&] { return train(*workers[0]); });
  Background second([&] { return train(*workers[1]); });
  while (reached < 3) {
  }
  ASSERT_OK(client_->SaveCheckpoint());
  const Step saved = reached;
  while (reached < saved + 3) {
  }

  End(home);
  client_ =
      Client::Connect({.target = absl::StrCat(
                           "cluster:", servers_.begin()->second->address()),
                       .name_space = "train"})
          .value();
  ASSERT_OK(Lose(home));
  AwaitRestored();
  last_step = reached + 3;

  ASSERT_OK(first.Result());
  ASSERT_OK(second.Result());
  EXPECT_NE(OwnerOfKey(""), home);
  const auto other = Connect();
  for (int i = 0; i < kNumKeys; ++i) {
    ASSERT_OK_AND_ASSIGN(const Value value, other->Pull(Key(i)));
    EXPECT_EQ(ElementsOf(value.tensor)[0], 2.0 * last_step) << Key(i);
  }
}

}  // namespace cluster_loss_test
}  // namespace tensorkv
