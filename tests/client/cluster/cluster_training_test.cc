// Training on several servers gives the bits that it gives on one.

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/worker_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/testing/background.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::TestCluster;
using ::tensorkv::testing::Vector;

constexpr int kNumKeys = 12;
constexpr Step kLastStep = 5;

std::vector<std::string> TrainedKeys() {
  std::vector<std::string> keys;
  for (int i = 0; i < kNumKeys; ++i) keys.push_back(absl::StrCat("w", i));
  return keys;
}

Tensor RandomTensor(uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> element(-1, 1);
  std::vector<double> elements(100);
  for (double& value : elements) value = element(random);
  return Vector(elements);
}

absl::Status Train(WorkerClient& worker) {
  for (Step step = 1; step <= kLastStep; ++step) {
    std::vector<PushEntry> gradients;
    for (const std::string& key : TrainedKeys()) {
      const uint32_t seed = (1 + worker.rank()) * 10000 +
                            static_cast<uint32_t>(step) * 100 +
                            static_cast<uint32_t>(gradients.size());
      gradients.push_back({.key = key, .tensor = RandomTensor(seed)});
    }
    const auto reply = worker.PushPull(step, std::move(gradients));
    if (!reply.ok()) return reply.status();
  }
  return absl::OkStatus();
}

// The bytes of all keys after three workers have trained them: of so many, the
// sum depends on the order.
std::vector<std::string> TrainedBytes(const TestCluster& cluster) {
  const ClientOptions options = {.target = cluster.target(),
                                 .name_space = "train"};
  const auto client = Client::Connect(options).value();
  EXPECT_THAT(
      client->CreateNamespace(
          "train", {.mode = Mode::kSync,
                    .num_workers = 3,
                    .rule = ParseRuleSpec("sgd(learning_rate=0.1)").value()}),
      IsOk());
  uint32_t seed = 0;
  for (const std::string& key : TrainedKeys()) {
    EXPECT_THAT(client->Init(key, RandomTensor(++seed)), IsOk());
  }
  std::vector<std::unique_ptr<WorkerClient>> workers;
  for (const char* name : {"a", "b", "c"}) {
    workers.push_back(WorkerClient::Join(options, {.name = name}).value());
  }
  Background first([&] { return Train(*workers[0]); });
  Background second([&] { return Train(*workers[1]); });
  EXPECT_THAT(Train(*workers[2]), IsOk());
  EXPECT_THAT(first.Result(), IsOk());
  EXPECT_THAT(second.Result(), IsOk());
  std::vector<std::string> bytes;
  const absl::StatusOr<PullReply> trained = client->Pull(TrainedKeys());
  EXPECT_THAT(trained, IsOk());
  for (const Value& value : trained->values) {
    EXPECT_EQ(value.version, kLastStep + 1);
    bytes.push_back(BytesOf(value.tensor));
  }
  return bytes;
}

TEST(ClusterTrainingTest, GivesTheBitsOfOneServer) {
  EXPECT_EQ(TrainedBytes(TestCluster(3)), TrainedBytes(TestCluster(1)));
}

}  // namespace
}  // namespace tensorkv
