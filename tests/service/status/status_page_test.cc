#include "service/status/status_page.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "nlohmann/json.hpp"
#include "service/status/status_json.h"
#include "service/store/memory_tensor_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using Json = nlohmann::json;

// The pages of a store with a group of workers, not all of whom have joined.
class StatusPagesTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kNumWorkers = 40;

  StatusPagesTest() {
    CreateNamespaceRequest create;
    create.name_space = "group";
    create.config.mode = Mode::kSync;
    create.config.num_workers = kNumWorkers;
    EXPECT_OK(store_.CreateNamespace(create));
  }

  void InitKey(const std::string& key) {
    InitRequest request;
    request.name_space = "group";
    request.entries.push_back({key, *Tensor::Filled(DType::kF32, {2}, 0)});
    const Answer<absl::StatusOr<InitReply>> answer;
    store_.Init(std::move(request), {},
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(std::move(reply));
                });
    EXPECT_OK(answer.Wait());
  }
  Worker Join(const std::string& name) {
    return store_
        .Join({.name_space = "group",
               .worker_name = name,
               .lease = absl::Minutes(10)})
        .value()
        .worker;
  }
  // The round stays open, so nobody waits for its end.
  void Push(const Worker& worker, const std::string& key, Step step) {
    PushRequest request;
    request.name_space = "group";
    request.worker = worker;
    request.step = step;
    request.entries.push_back(
        {key, false, *Tensor::Filled(DType::kF32, {2}, 1)});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    EXPECT_OK(answer.Wait());
  }
  Json Status() {
    const absl::StatusOr<std::string> text =
        pages_.at("/status.json").text({{"namespace", "group"}});
    EXPECT_OK(text);
    return Json::parse(*text);
  }

  CpuBackend backend_{1};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 64 << 20}, &backend_, &alarms_};
  const std::map<std::string, HttpPage, std::less<>> pages_ = StatusPages(
      {.store = &store_, .namespaces = &store_, .summaries = &store_});
};

TEST(StatusJsonTest, ClusterHasTheServersAndWhatEachOwns) {
  const DescribeClusterReply reply = {
      .server_name = "b",
      .placement = {
          .cluster = "c",
          .version = 7,
          .servers = {{.name = "a", .address = "a:1"},
                      {.name = "b", .address = "b:1", .is_live = true}},
          .owners = {0, 1, 1},
          .lost = {{.server = "x", .partitions = {2}}}}};

  const Json cluster = JsonOf(reply);

  EXPECT_EQ(cluster["placement_version"], 7);
  EXPECT_EQ(cluster["servers"][0]["partitions"], 1);
  EXPECT_EQ(cluster["servers"][0]["live"], false);
  EXPECT_EQ(cluster["servers"][1]["partitions"], 2);
  EXPECT_EQ(cluster["servers"][1]["partitions_to_restore"], 1);
  EXPECT_EQ(cluster["servers"][1]["self"], true);
  EXPECT_TRUE(JsonOf(DescribeClusterReply()).is_null());
}

TEST_F(StatusPagesTest, AwaitsNobodyWithoutRounds) {
  EXPECT_EQ(Status()["awaited"], Json::array());
}

TEST_F(StatusPagesTest, RoundsOfTheLowestStepsComeFirst) {
  const Worker ahead = Join("ahead");
  for (const std::string key : {"a", "b"}) {
    InitKey(key);
    for (Step step = 1; step <= 2; ++step) Push(ahead, key, step);
  }

  const Json rounds = Status()["rounds"];

  ASSERT_EQ(rounds.size(), 4u);
  for (size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i]["step"], i / 2 + 1);
    EXPECT_EQ(rounds[i]["key"], i % 2 == 0 ? "a" : "b");
    EXPECT_EQ(rounds[i]["num_missing"], kNumWorkers - 1);
  }
}

TEST_F(StatusPagesTest, AwaitedAreThoseWhomMostRoundsWaitFor) {
  InitKey("k");
  const Worker ahead = Join("ahead");
  const Worker behind = Join("behind");
  Push(ahead, "k", 1);
  Push(ahead, "k", 2);
  Push(behind, "k", 1);

  const Json awaited = Status()["awaited"];

  // The page has 32 of them: the worker that has contributed to one of the
  // rounds comes after all who have not.
  ASSERT_EQ(awaited.size(), 32u);
  EXPECT_EQ(awaited[0], Json::parse(R"({"rank": 2, "name": "", "live": false,
                                        "left": false,
                                        "rounds": 2})"));
}

TEST_F(StatusPagesTest, AwaitedWorkersHaveTheNamesThatTheyJoinedWith) {
  InitKey("k");
  std::vector<Worker> workers;
  for (uint32_t i = 0; i < kNumWorkers; ++i) {
    workers.push_back(Join(absl::StrCat("worker ", i)));
  }
  for (const Worker& worker : workers) {
    if (worker.rank != 7) Push(worker, "k", 1);
  }

  EXPECT_EQ(Status()["awaited"],
            Json::parse(R"([{"rank": 7, "name": "worker 7", "live": true,
                             "left": false, "rounds": 1}])"));
}

}  // namespace
}  // namespace tensorkv
