// Workers whose contributions come late, and are carried into later rounds.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/worker_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/buffer.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Background;
using ::testing::Each;
using ::testing::Field;
using testing::Full;
using testing::HasTensor;
using testing::IsFilledWith;
using testing::IsOkAndHolds;
using testing::TestCluster;

struct Servers {
  size_t number = 1;
  // Keys of so many bytes are cut into slices.
  uint64_t split_bytes = 0;
};

// Three workers, of whom two are enough, and their servers.
class LateWorkerTest : public ::testing::TestWithParam<Servers> {
 protected:
  LateWorkerTest() : cluster_(GetParam().number, GetParam().split_bytes) {
    client_ = Client::Connect(options_).value();
    EXPECT_OK(client_->CreateNamespace("train", {.mode = Mode::kSync,
                                                 .num_workers = 3,
                                                 .quorum = 2,
                                                 .max_open_rounds = 4,
                                                 .late = Late::kCarry}));
    for (const std::string& key : keys_) {
      EXPECT_OK(client_->Init(key, Full({2}, 0)));
    }
    for (const char* name : {"a", "b", "c"}) workers_.push_back(Join(name));
  }

  std::unique_ptr<WorkerClient> Join(const std::string& name) const {
    return WorkerClient::Join(options_, {.name = name}).value();
  }

  std::vector<PushEntry> Entries(const Tensor& tensor) const {
    std::vector<PushEntry> entries;
    for (const std::string& key : keys_) {
      entries.push_back({.key = key, .tensor = tensor});
    }
    return entries;
  }
  std::vector<PushEntry> Entries(double element) const {
    return Entries(Full({2}, element));
  }

  // Has the first two make the step, whose rounds are the sum of that.
  void Close(Step step, double element) {
    ASSERT_OK(workers_[0]->Push(step, Entries(element)));
    ASSERT_OK(workers_[1]->PushPull(step, Entries(0)));
    ASSERT_OK(workers_[0]->Pull(keys_));
  }

  auto HasAll(double element) const {
    return IsOkAndHolds(Field("values", &PullReply::values,
                              Each(HasTensor(IsFilledWith(element)))));
  }

  const std::vector<std::string> keys_ = {"k0", "k1", "k2", "k3", "k4", "k5"};
  const TestCluster cluster_;
  const ClientOptions options_ = {.target = cluster_.target(),
                                  .name_space = "train"};
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<WorkerClient>> workers_;
};

TEST_P(LateWorkerTest, CatchesUpWithTheOthers) {
  WorkerClient& late = *workers_[2];
  Close(1, 1);
  Close(2, 2);

  EXPECT_THAT(late.PushPull(1, Entries(4)), HasAll(2));
  EXPECT_EQ(late.step(), 2u);
  EXPECT_THAT(late.PushPull(2, Entries(32)), HasAll(2));
  EXPECT_EQ(late.step(), 3u);
  ASSERT_OK(workers_[0]->Push(3, Entries(8)));
  EXPECT_THAT(late.PushPull(3, Entries(16)), HasAll(60));

  EXPECT_EQ(late.step(), 4u);
  EXPECT_EQ(late.last_dropped_step(), 0u);
}

// What the round has lost comes again, from a copy: the trainer goes on with
// its own memory.
TEST_P(LateWorkerTest, BringsAgainWhatARoundLosesThatHeldIt) {
  WorkerClient& late = *workers_[2];
  Close(1, 1);
  std::vector<float> memory(2, 4);
  const auto lent = MakeRefCounted<AdoptedBuffer>(
      memory.data(), memory.size() * sizeof(float), [] {});
  ASSERT_OK(late.PushPull(
      1, Entries(Tensor::FromBuffer(DType::kF32, {2}, lent).value())));
  std::fill(memory.begin(), memory.end(), 99);
  ASSERT_OK(workers_[0]->Push(2, Entries(8)));
  // The round fails, in which a waits.
  ASSERT_OK(workers_[1]->Leave(LeaveCause::kLost));

  Background first([&] { return workers_[0]->Pull(keys_); });
  EXPECT_THAT(late.PushPull(2, Entries(16)), HasAll(28));

  EXPECT_THAT(first.Result(), HasAll(28));
  EXPECT_EQ(late.step(), 3u);
}

// Those that are more than the open rounds behind are refused, as ever.
TEST_P(LateWorkerTest, LosesWhatNoRoundTakes) {
  WorkerClient& late = *workers_[2];
  for (Step step = 1; step <= 6; ++step) Close(step, 1);

  EXPECT_THAT(late.PushPull(1, Entries(4)), HasAll(1));

  EXPECT_EQ(late.last_dropped_step(), 1u);
}

// A worker that comes back has nothing of what its former self had brought, and
// is told to make it again.
TEST_P(LateWorkerTest, ComesBackToWhatARoundIsToTake) {
  Close(1, 1);
  ASSERT_OK(workers_[2]->PushPull(1, Entries(4)));
  ASSERT_OK(workers_[2]->Leave(LeaveCause::kLost));

  workers_[2] = Join("c");

  EXPECT_EQ(workers_[2]->step(), 1u);
  ASSERT_OK(workers_[2]->PushPull(1, Entries(4)));
  EXPECT_EQ(workers_[2]->step(), 2u);
  ASSERT_OK(workers_[0]->Push(2, Entries(8)));
  EXPECT_THAT(workers_[2]->PushPull(2, Entries(16)), HasAll(28));
}

INSTANTIATE_TEST_SUITE_P(, LateWorkerTest,
                         ::testing::Values(Servers{1}, Servers{3},
                                           Servers{3, 8}));

}  // namespace
}  // namespace tensorkv
