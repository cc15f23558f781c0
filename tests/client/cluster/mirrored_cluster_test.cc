// A mirrored namespace of servers that reach each other over gRPC, by the
// client of a cluster.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::BytesOf;
using testing::Caller;
using testing::Full;
using testing::HasReason;
using testing::HasTensor;
using testing::IsFilledWith;
using testing::IsOkAndHolds;
using testing::StatusIs;
using testing::TestCluster;

constexpr uint32_t kWorkers = 4;

class MirroredClusterTest : public ::testing::Test {
 protected:
  MirroredClusterTest() {
    NamespaceConfig config = {.mode = Mode::kSync, .num_workers = kWorkers};
    config.mirrored = true;
    EXPECT_OK(Ours().Create(config));
    EXPECT_OK(Ours().SetRule("adam(learning_rate=0.01)"));
  }

  Caller Ours() { return Caller(*connection_, "n"); }
  // What a server has, as if there were no other.
  Caller At(uint32_t server) { return Caller(*ones_[server], "n"); }

  void PushFromAll(const std::string& key, int64_t num_elements, Step step) {
    std::vector<std::thread> workers;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      workers.emplace_back([&, rank] {
        const Caller worker = Ours().As(rank);
        const double value = 0.1 * (rank + 1) * static_cast<double>(step);
        ASSERT_OK(worker.Push(key, Full({num_elements}, value), step));
        ASSERT_OK(worker.Pull(key));
      });
    }
    for (std::thread& worker : workers) worker.join();
  }

  TestCluster cluster_{3};
  const std::unique_ptr<Connection> connection_ = cluster_.Connect();
  const std::unique_ptr<Connection> ones_[3] = {cluster_.ConnectToOne(0),
                                                cluster_.ConnectToOne(1),
                                                cluster_.ConnectToOne(2)};
};

TEST_F(MirroredClusterTest, EveryServerHasTheSameAfterEveryRound) {
  const int64_t num_elements = 1 << 20;
  ASSERT_OK(Ours().Init("w", Full({num_elements}, 1)));

  for (Step step = 1; step <= 3; ++step) {
    PushFromAll("w", num_elements, step);
  }

  const absl::StatusOr<Value> ours = Ours().Pull("w");
  ASSERT_OK(ours);
  EXPECT_EQ(ours->version, 4u);
  for (uint32_t server = 0; server < 3; ++server) {
    const absl::StatusOr<Value> value = At(server).Pull("w");
    ASSERT_OK(value);
    EXPECT_EQ(value->version, 4u);
    EXPECT_TRUE(BytesOf(value->tensor) == BytesOf(ours->tensor)) << server;
  }
}

// Each server knows of its own workers; the client joins them to one list.
TEST_F(MirroredClusterTest, StepsTellOfAllWorkersAndOfEachKeyOnce) {
  ASSERT_OK(Ours().Init("w", Full({4}, 1)));
  ASSERT_OK(Ours().Init("v", Full({4}, 1)));
  for (const char* key : {"w", "v"}) PushFromAll(key, 4, 1);

  const auto reply = Ours().Call(DescribeStepsRequest());

  ASSERT_OK(reply);
  ASSERT_EQ(reply->steps_size(), 1);
  EXPECT_EQ(reply->steps(0).rounds_closed(), 2u);
  ASSERT_EQ(reply->steps(0).contributors_size(), 1);
  const v1::StepContributors& list = reply->steps(0).contributors(0);
  EXPECT_EQ(list.num_keys(), 2u);
  std::vector<uint32_t> ranks;
  for (const auto& each : list.contributions()) ranks.push_back(each.rank());
  EXPECT_THAT(ranks, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST_F(MirroredClusterTest, UpdateReachesEveryServer) {
  ASSERT_OK(Ours().Update({.gradient_guard = {.max_norm = 7}},
                          {"gradient_guard.max_norm"}));

  for (uint32_t server = 0; server < 3; ++server) {
    EXPECT_EQ(At(server).Describe()->config().gradient_guard().max_norm(), 7);
  }
  EXPECT_THAT(Ours().Update({.quorum = 2}, {"quorum"}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       ::testing::HasSubstr("quorum: servers of a cluster")));
}

// Each server has the contributions of its own workers alone.
TEST_F(MirroredClusterTest, LeaveEndsTheWaitsAtOtherServers) {
  ASSERT_OK(Ours().SetRule("accumulate"));
  ASSERT_OK(Ours().Init("w", Full({4}, 0)));
  std::vector<Caller> workers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    workers.push_back(*Ours().Join(absl::StrCat("worker", i)));
  }
  for (const Caller& worker : workers) {
    ASSERT_OK(worker.Push("w", Full({4}, 1), 1));
  }

  ASSERT_OK(workers[1].Leave());

  for (const uint32_t rank : {0, 2, 3}) {
    EXPECT_THAT(workers[rank].Pull("w"),
                IsOkAndHolds(HasTensor(IsFilledWith(kWorkers))));
    EXPECT_THAT(workers[rank].PushPull("w", Full({4}, 1), 2),
                HasReason(Reason::kWorkerLeft,
                          {{"key", "w"}, {"step", "2"}, {"ranks", "1"}}));
  }
  const absl::StatusOr<JoinReply> taken =
      Ours().TryJoin("other", absl::Minutes(5));
  ASSERT_OK(taken);
  EXPECT_EQ(taken->next_step(), 2u);
  ASSERT_OK(Ours().As(WorkerOf(taken->worker())).Push("w", Full({4}, 1), 2));
  EXPECT_THAT(workers[0].Pull("w"),
              IsOkAndHolds(HasTensor(IsFilledWith(2 * kWorkers))));
}

TEST_F(MirroredClusterTest, BarrierWaitsForTheWorkersOfAllServers) {
  std::vector<Caller> workers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    workers.push_back(*Ours().Join(absl::StrCat("worker", i)));
  }
  std::atomic<int> num_through = 0;
  std::vector<std::thread> waiting;
  for (uint32_t i = 0; i + 1 < kWorkers; ++i) {
    waiting.emplace_back([&, i] {
      EXPECT_OK(workers[i].Barrier("b"));
      ++num_through;
    });
  }
  const Caller home = At(cluster_.HomeOf("n"));
  while (num_through == 0 && home.Describe()->calls_waiting() + 1 < kWorkers) {
  }
  EXPECT_EQ(num_through, 0);

  EXPECT_OK(workers.back().Barrier("b"));

  for (std::thread& each : waiting) each.join();
}

TEST_F(MirroredClusterTest, KeysAreCreatedListedAndRemovedOnAllServers) {
  ASSERT_OK(Ours().Init("w", Full({4}, 1)));
  // Somebody else comes later, with another value.
  ASSERT_OK(Ours().Init("w", Full({4}, 2), OnExisting::kKeep));

  EXPECT_EQ(Ours().List()->keys_size(), 1);
  EXPECT_EQ(Ours().Describe()->num_keys(), 1u);
  for (uint32_t server = 0; server < 3; ++server) {
    EXPECT_THAT(At(server).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  }
  EXPECT_THAT(Ours().Delete({"w"}), IsOkAndHolds(1u));
  for (uint32_t server = 0; server < 3; ++server) {
    EXPECT_THAT(At(server).Pull("w"), StatusIs(absl::StatusCode::kNotFound));
  }
}

TEST_F(MirroredClusterTest, ServerThatStopsFailsTheRoundsOfTheOthers) {
  ASSERT_OK(Ours().Init("w", Full({4}, 1)));
  PushFromAll("w", 4, 1);
  cluster_.Stop(1);

  for (const uint32_t rank : {0u, 3u, 2u}) {
    ASSERT_OK(Ours().As(rank).Push("w", Full({4}, 1), 2));
  }

  for (const uint32_t rank : {0u, 2u}) {
    EXPECT_THAT(Ours().As(rank).Pull("w"), HasReason(Reason::kRoundFailed));
  }
  EXPECT_EQ(At(0).Pull("w")->version, 2u);
}

}  // namespace
}  // namespace tensorkv
