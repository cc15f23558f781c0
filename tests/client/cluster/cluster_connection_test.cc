#include "client/cluster/cluster_connection.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/worker_client.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Caller;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::HasTensor;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::TestCluster;
using ::testing::HasSubstr;

TEST(ClusterConnectionTest, GoesWhereKeysAreNow) {
  TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "");
  ASSERT_THAT(store.Init(cluster.KeyOf(0), Full({1}, 1)), IsOk());
  const std::string moved = cluster.KeyOf(1);

  std::vector<uint32_t> owners(64, 0);
  cluster.SetOwners(owners);

  // A call with a part that stays and one that has moved.
  EXPECT_THAT(
      store.InitMany({{.key = cluster.KeyOf(0, "", 1), .tensor = Full({1}, 2)},
                      {.key = moved, .tensor = Full({1}, 3)}}),
      IsOk());
  const std::unique_ptr<Connection> there = cluster.ConnectToOne(0);
  EXPECT_THAT(Caller(*there, "").Pull(moved),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST(ClusterConnectionTest, NamespaceOfAClusterKeepsWhatEndsItsRounds) {
  const TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller n(*connection, "n");
  ASSERT_THAT(n.Create({.mode = Mode::kSync, .num_workers = 2}), IsOk());

  for (const std::string path :
       {"quorum", "quorum_grace", "on_worker_loss", "rescale_partial_rounds"}) {
    EXPECT_THAT(n.Update({.quorum = 1}, {"budget_bytes", path}),
                StatusIs(absl::StatusCode::kUnimplemented,
                         HasSubstr(path + ": servers of a cluster")));
  }
  EXPECT_THAT(n.Update({.gradient_guard = {.max_norm = 1}},
                       {"budget_bytes", "gradient_guard.max_norm"}),
              IsOk());
}

TEST(ClusterConnectionTest, NamespaceIsKeptThatOneServerHasNotUpdated) {
  const TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  NamespaceConfig config = {.budget_bytes = 1 << 20};
  const Caller n(*connection, "n");
  ASSERT_THAT(n.Create(config), IsOk());
  const size_t home = cluster.HomeOf("n");
  config.budget_bytes = 2 << 20;
  config.gradient_guard.max_norm = 1;
  ASSERT_THAT(Caller(*cluster.ConnectToOne(home), "n")
                  .Update(config, {"budget_bytes", "gradient_guard"}),
              IsOk());

  EXPECT_THAT(n.Create({.budget_bytes = 1 << 20}, OnExisting::kKeep),
              HasReason(Reason::kExistsDifferently));
  EXPECT_THAT(n.Create(config, OnExisting::kKeep), IsOk());

  EXPECT_THAT(n.Init(cluster.KeyOf(1 - home, "n"), Full({1}, 1)), IsOk());
  EXPECT_THAT(n.Update(config, {"budget_bytes", "gradient_guard"}), IsOk());
  EXPECT_THAT(Caller(*cluster.ConnectToOne(1 - home), "n")
                  .Describe()
                  ->config()
                  .gradient_guard()
                  .max_norm(),
              1);
}

// Each of the two leaves the key to the other.
TEST(ClusterConnectionTest, NoListIsMadeOfPagesOfSeveralPlacements) {
  TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "");
  ASSERT_THAT(store.Init(cluster.KeyOf(1), Full({1}, 1)), IsOk());

  cluster.SetOwnersAt(1, std::vector<uint32_t>(64, 0));

  EXPECT_FALSE(store.WithTimeout(absl::Milliseconds(100)).List("", 0, "").ok());
}

TEST(ClusterConnectionTest, ServerThatIsAwayKeepsNobodyFromTheOthers) {
  TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store = Caller(*connection, "");
  ASSERT_THAT(store.Init(cluster.KeyOf(0), Full({1}, 1)), IsOk());
  ASSERT_THAT(store.Init(cluster.KeyOf(1), Full({1}, 1)), IsOk());

  cluster.Stop(1);

  EXPECT_THAT(store.WithTimeout(absl::Seconds(2)).Pull(cluster.KeyOf(1)),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("server \"s1\" (",
                                              cluster.address(1), ")"))));
  EXPECT_THAT(store.Pull(cluster.KeyOf(0)), IsOk());
}

TEST(ClusterConnectionTest, ServerInNoClusterIsAStoreByItself) {
  const std::unique_ptr<Server> server =
      Server::Create({.listen = "127.0.0.1:0", .budget_bytes = 1 << 30})
          .value();
  const auto client =
      Client::Connect({.target = absl::StrCat("cluster:", server->address())});
  ASSERT_THAT(client, IsOk());

  EXPECT_THAT((*client)->Init("w", Full({1}, 4)), IsOk());
  EXPECT_THAT((*client)->Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(4))));
  EXPECT_TRUE((*client)->DescribeCluster()->placement().owners().empty());
}

TEST(ClusterConnectionTest, NamespaceIsOneByItsUid) {
  const TestCluster cluster(3);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({}), IsOk());
  InitRequest request = {.name_space = "train",
                         .namespace_uid = store.Describe()->uid()};
  for (size_t i = 0; i < 3; ++i) {
    request.entries.push_back(
        {.key = cluster.KeyOf(i, "train"), .tensor = Full({1}, 1)});
  }
  EXPECT_THAT(connection->Call(request), IsOk());

  ASSERT_THAT(store.Drop(), IsOk());
  ASSERT_THAT(store.Create({}), IsOk());
  EXPECT_THAT(connection->Call(request), HasReason(Reason::kNamespaceReplaced));
}

TEST(ClusterConnectionTest, ListHasTheUidsOfTheHomes) {
  const TestCluster cluster(3);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  for (int i = 0; i < 12; ++i) {
    const Caller store(*connection, absl::StrCat("n", i));
    ASSERT_THAT(store.Create({}), IsOk());
  }

  const auto list = connection->Call(ListNamespacesRequest());

  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->namespaces_size(), 13);
  for (const NamespaceStatus& status : list->namespaces()) {
    EXPECT_EQ(status.uid(),
              Caller(*connection, status.name()).Describe()->uid());
  }
}

TEST(ClusterConnectionTest, RefusesWhatOneServerAloneCanDo) {
  const TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();

  EXPECT_THAT(Caller(*connection, "b")
                  .Create({.mode = Mode::kBounded, .num_workers = 1}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("bounded")));
  RestoreCheckpointRequest restore;
  restore.set_name("c");
  restore.add_namespaces("a");
  restore.set_as_namespace("b");
  EXPECT_THAT(
      connection->Call(restore),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("as_namespace")));
  EXPECT_THAT(Caller(*connection, "b").Describe(),
              HasReason(Reason::kNamespaceNotFound));
}

TEST(ClusterConnectionTest, RepeatedCreationCompletesTheFirst) {
  const TestCluster cluster(2);
  // What is there when the first has come to its end at home alone.
  const std::unique_ptr<Connection> home =
      cluster.ConnectToOne(cluster.HomeOf("train"));
  ASSERT_THAT(Caller(*home, "train").Create({.staleness = 0}), IsOk());
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");

  EXPECT_THAT(store.Create({}), HasReason(Reason::kNamespaceExists));

  EXPECT_THAT(store.Init(cluster.KeyOf(0, "train"), Full({1}, 1)), IsOk());
  EXPECT_THAT(store.Init(cluster.KeyOf(1, "train"), Full({1}, 1)), IsOk());
}

TEST(ClusterConnectionTest, RepeatedDeletionCompletesTheFirst) {
  const TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({}), IsOk());
  const std::unique_ptr<Connection> home =
      cluster.ConnectToOne(cluster.HomeOf("train"));
  ASSERT_THAT(Caller(*home, "train").Drop(), IsOk());

  EXPECT_THAT(store.Drop(), IsOk());
  EXPECT_THAT(store.Drop(), HasReason(Reason::kNamespaceNotFound));
}

// Ends the worker's membership at one server only, as a lease that ends does.
void LoseAt(const TestCluster& cluster, size_t server,
            const std::string& name_space) {
  const std::unique_ptr<Connection> there = cluster.ConnectToOne(server);
  const Caller store(*there, name_space);
  const absl::StatusOr<NamespaceStatus> status = store.Describe();
  ASSERT_THAT(status, IsOk());
  ASSERT_THAT(store.As(WorkerOf(status->workers(0).worker())).Leave(), IsOk());
}

TEST(ClusterConnectionTest, WorkerThatOneServerHasLostIsLost) {
  const TestCluster cluster(3);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({.mode = Mode::kSync, .num_workers = 1}), IsOk());
  absl::StatusOr<Caller> worker = store.Join("w");
  ASSERT_THAT(worker, IsOk());
  ASSERT_THAT(worker->KeepAlive(), IsOk());

  LoseAt(cluster, (cluster.HomeOf("train") + 1) % 3, "train");

  EXPECT_THAT(worker->KeepAlive(), HasReason(Reason::kNotMember));
  EXPECT_THAT(store.TryJoin("w", absl::Minutes(5)),
              HasReason(Reason::kWorkerNameTaken));
}

// It would wait for as long as the call may take.
TEST(ClusterConnectionTest, NobodyWaitsWhereAnotherServerHasLostTheWorker) {
  const TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({.mode = Mode::kSync, .num_workers = 2}), IsOk());
  const size_t home = cluster.HomeOf("train");
  const std::string here = cluster.KeyOf(home, "train");
  const std::string there = cluster.KeyOf(1 - home, "train");
  for (const std::string& key : {here, there}) {
    ASSERT_THAT(store.Init(key, Full({1}, 0)), IsOk());
  }
  const auto client = Client::Connect({.target = cluster.target(),
                                       .name_space = "train",
                                       .timeout = absl::Hours(1)});
  ASSERT_THAT(client, IsOk());
  // Which tells that a push of a step may be made again.
  ASSERT_THAT((*client)->DescribeNamespace("train"), IsOk());
  ASSERT_THAT((*client)->Join("w", absl::Minutes(5)), IsOk());
  const std::vector<PushEntry> entries = {
      {.key = here, .tensor = Full({1}, 5)},
      {.key = there, .tensor = Full({1}, 5)}};
  ASSERT_THAT((*client)->Push(entries, {.step = 1}), IsOk());

  LoseAt(cluster, 1 - home, "train");

  EXPECT_THAT((*client)->Pull(std::vector<std::string>{here, there}),
              HasReason(Reason::kNotMember));
  EXPECT_THAT((*client)->PushPull(entries, {.step = 1}),
              HasReason(Reason::kNotMember));
}

TEST(ClusterConnectionTest, WorkerHasItsRankOnEveryServer) {
  const TestCluster cluster(3);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({.mode = Mode::kSync, .num_workers = 2}), IsOk());
  // As if "b" had come first to a server that is not the home.
  const size_t other = (cluster.HomeOf("train") + 1) % 3;
  const std::unique_ptr<Connection> there = cluster.ConnectToOne(other);
  const absl::StatusOr<Caller> early = Caller(*there, "train").Join("b");
  ASSERT_THAT(early, IsOk());
  EXPECT_THAT(store.Join("a"), HasReason(Reason::kWorkerNameTaken));
  ASSERT_THAT(early->Leave(), IsOk());

  EXPECT_EQ(store.Join("a")->worker().rank, 0);
  EXPECT_EQ(store.Join("b")->worker().rank, 1);

  const absl::StatusOr<NamespaceStatus> status =
      Caller(*there, "train").Describe();
  ASSERT_EQ(status->workers_size(), 2);
  EXPECT_EQ(status->workers(0).name(), "a");
  EXPECT_EQ(status->workers(1).name(), "b");
}

TEST(ClusterConnectionTest, WorkerClientJoinsAgainEverywhere) {
  const TestCluster cluster(3);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({.mode = Mode::kSync, .num_workers = 1}), IsOk());
  std::vector<PushEntry> entries;
  for (size_t i = 0; i < 3; ++i) {
    const std::string key = cluster.KeyOf(i, "train");
    ASSERT_THAT(store.Init(key, Full({1}, 0)), IsOk());
    entries.push_back({.key = key, .tensor = Full({1}, 5)});
  }
  const auto worker = WorkerClient::Join(
      {.target = cluster.target(), .name_space = "train"}, {.name = "w"});
  ASSERT_THAT(worker, IsOk());
  ASSERT_THAT((*worker)->PushPull(1, entries), IsOk());

  LoseAt(cluster, (cluster.HomeOf("train") + 1) % 3, "train");

  const absl::StatusOr<PullReply> reply = (*worker)->PushPull(2, entries);
  ASSERT_THAT(reply, IsOk());
  for (const Value& value : reply->values) EXPECT_EQ(value.version, 3);
}

TEST(ClusterConnectionTest, WorkerJoinsAgainWithoutAServerThatHasLeft) {
  TestCluster cluster(3);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({.mode = Mode::kSync, .num_workers = 1}), IsOk());
  const auto worker = WorkerClient::Join(
      {.target = cluster.target(), .name_space = "train"}, {.name = "w"});
  ASSERT_THAT(worker, IsOk());

  cluster.RemoveLast();

  EXPECT_THAT((*worker)->Rejoin(), IsOk());
}

TEST(ClusterConnectionTest, ResizeIsAskedOfAnotherServerThanOneThatHasDied) {
  TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const auto resize = [&] {
    ResizeClusterRequest request;
    request.add_remove("s0");
    return connection->Call(request, {}).status();
  };
  const absl::Status answer = resize();

  cluster.Stop(0);

  EXPECT_EQ(resize().code(), answer.code());
}

TEST(ClusterConnectionTest, PushToKeysThatMovedIsMadeThoughOthersAreClosed) {
  TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({.mode = Mode::kSync, .num_workers = 1}), IsOk());
  const std::string stays = cluster.KeyOf(0, "train");
  const std::string moves = cluster.KeyOf(1, "train");
  ASSERT_THAT(store.Init(stays, Full({1}, 0)), IsOk());
  absl::StatusOr<Caller> worker = store.Join("w");
  ASSERT_THAT(worker, IsOk());
  // It knows the mode then.
  ASSERT_THAT(store.Describe(), IsOk());
  // So many that the first is forgotten.
  for (Step step = 1; step <= 10; ++step) {
    ASSERT_THAT(worker->Push(stays, Full({1}, 1), step), IsOk());
  }

  cluster.SetOwners(std::vector<uint32_t>(64));
  const std::unique_ptr<Connection> there = cluster.Connect();
  ASSERT_THAT(Caller(*there, "train").Init(moves, Full({1}, 0)), IsOk());

  EXPECT_THAT(worker->PushMany({{.key = stays, .tensor = Full({1}, 1)},
                                {.key = moves, .tensor = Full({1}, 1)}},
                               1),
              HasReason(Reason::kStepClosed));
  EXPECT_THAT(Caller(*there, "train").Pull(moves),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST(ClusterConnectionTest, PushThatIsPartlyMadeIsNotMadeAgain) {
  const TestCluster cluster(2);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "train");
  ASSERT_THAT(store.Create({}), IsOk());
  const std::string here = cluster.KeyOf(cluster.HomeOf("train"), "train");
  const std::string there = cluster.KeyOf(1 - cluster.HomeOf("train"), "train");
  ASSERT_THAT(store.Init(here, Full({1}, 0)), IsOk());
  ASSERT_THAT(store.Init(there, Full({1}, 0)), IsOk());
  absl::StatusOr<Caller> worker = store.Join("w");
  ASSERT_THAT(worker, IsOk());

  LoseAt(cluster, 1 - cluster.HomeOf("train"), "train");

  // Nothing of this one is made.
  EXPECT_THAT(worker->Push(there, Full({1}, 1), 1),
              HasReason(Reason::kNotMember));
  EXPECT_THAT(worker->PushMany({{.key = here, .tensor = Full({1}, 1)},
                                {.key = there, .tensor = Full({1}, 1)}},
                               1),
              HasReason(Reason::kOutcomeUnknown));
}

TEST(ClusterConnectionTest, OptionsThatCannotWorkShowAtOnce) {
  EXPECT_THAT(Client::Connect({.target = "cluster:"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      Client::Connect({.target = "cluster:a:1", .max_message_bytes = 1}),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv
