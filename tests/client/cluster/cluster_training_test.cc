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

absl::Status TrainAs(const ClientOptions& options, uint32_t number) {
  const auto worker =
      WorkerClient::Join(options, {.name = absl::StrCat("worker-", number)});
  if (!worker.ok()) return worker.status();
  for (Step step = 1; step <= kLastStep; ++step) {
    std::vector<PushEntry> gradients;
    for (const std::string& key : TrainedKeys()) {
      const uint32_t seed = number * 10000 + static_cast<uint32_t>(step) * 100 +
                            static_cast<uint32_t>(gradients.size());
      gradients.push_back({.key = key, .tensor = RandomTensor(seed)});
    }
    const auto reply = (*worker)->PushPull(step, std::move(gradients));
    if (!reply.ok()) return reply.status();
  }
  return absl::OkStatus();
}

// The bytes of all keys after two workers have trained them.
std::vector<std::string> TrainedBytes(const TestCluster& cluster) {
  const ClientOptions options = {.target = cluster.target(),
                                 .name_space = "train"};
  const auto client = Client::Connect(options).value();
  EXPECT_THAT(
      client->CreateNamespace(
          "train", {.mode = Mode::kSync,
                    .num_workers = 2,
                    .rule = ParseRuleSpec("sgd(learning_rate=0.1)").value()}),
      IsOk());
  uint32_t seed = 0;
  for (const std::string& key : TrainedKeys()) {
    EXPECT_THAT(client->Init(key, RandomTensor(++seed)), IsOk());
  }
  Background other([&] { return TrainAs(options, 1); });
  EXPECT_THAT(TrainAs(options, 2), IsOk());
  EXPECT_THAT(other.Result(), IsOk());
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
