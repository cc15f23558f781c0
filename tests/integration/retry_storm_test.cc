// Replies and connections are lost on the way; nothing is lost or applied
// twice.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/integration/link_proxy.h"
#include "tests/integration/reply_dropping_proxy.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

constexpr int kNumKeys = 3;

// Runs `work` so often at the same time, each time as another client.
void AtOnce(int num_clients, const std::function<void()>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < num_clients; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

std::string KeyOf(int i) { return absl::StrCat("sum", i % kNumKeys); }

class RetryStormTest : public ::testing::Test {
 protected:
  RetryStormTest()
      : server_(Server::Create({.listen = "127.0.0.1:0",
                                .device = TestDeviceChoice(),
                                .budget_bytes = 1 << 28,
                                .num_threads = 1})
                    .value()),
        client_(ClientOf(server_->address())) {
    EXPECT_OK(client_->SetRule({.name = "accumulate"}));
  }

  static std::unique_ptr<Client> ClientOf(
      const std::string& target, const TransferOptions& transfer = {}) {
    return Client::Connect({.target = target,
                            .timeout = absl::Minutes(2),
                            .transfer = transfer})
        .value();
  }

  void InitKeys(const Shape& shape) {
    for (int i = 0; i < kNumKeys; ++i) {
      ASSERT_OK(client_->Init(KeyOf(i), Full(shape, 0, DType::kF64)));
    }
  }

  // Whether every key has the sum, and the version after `num_pushes`, of
  // pushes of 1 to `num_pushes` by each client.
  void ExpectSums(int num_clients, int num_pushes) {
    for (int key = 0; key < kNumKeys; ++key) {
      int64_t sum = 0;
      uint64_t version = 1;
      for (int i = key; i < num_pushes; i += kNumKeys) {
        sum += num_clients * (i + 1);
        version += num_clients;
      }
      EXPECT_THAT(client_->Pull(KeyOf(key)),
                  IsOkAndHolds(::testing::AllOf(HasTensor(IsFilledWith(sum)),
                                                HasVersion(version))));
    }
  }

  const std::unique_ptr<Server> server_;
  const std::unique_ptr<Client> client_;
};

TEST_F(RetryStormTest, SumsAreExactWhenRepliesAreLost) {
  // Most of the time they wait for what they lack, and so there are many.
  constexpr int kNumClients = 20;
  constexpr int kNumPushes = 100;  // of each
  ReplyDroppingProxy proxy(server_->address(), 0.2, /*seed=*/4);
  InitKeys({4});

  AtOnce(kNumClients, [&] {
    const std::unique_ptr<Client> client = ClientOf(proxy.address());
    for (int i = 0; i < kNumPushes; ++i) {
      ASSERT_OK(client->Push(KeyOf(i), Full({4}, i + 1, DType::kF64)));
    }
  });

  ExpectSums(kNumClients, kNumPushes);
  EXPECT_GT(proxy.num_dropped(), kNumClients * kNumPushes / 10);
}

TEST_F(RetryStormTest, PushPullContainsItsOwnPushAlthoughRepliesAreLost) {
  constexpr int kNumPushes = 100;
  ReplyDroppingProxy proxy(server_->address(), 0.2, /*seed=*/5);
  ASSERT_OK(client_->Init("own", Full({4}, 0, DType::kF64)));
  const std::unique_ptr<Client> client = ClientOf(proxy.address());

  for (int i = 1; i <= kNumPushes; ++i) {
    ASSERT_THAT(client->PushPull("own", Full({4}, 1, DType::kF64)),
                IsOkAndHolds(HasTensor(IsFilledWith(i))));
  }

  EXPECT_GT(proxy.num_dropped(), kNumPushes / 10);
}

TEST_F(RetryStormTest, SumsAreExactWhenConnectionsBreak) {
  constexpr int kNumClients = 4;
  constexpr int kNumPushes = 90;
  constexpr int64_t kNumElements = 2000;
  LinkProxy proxy;
  proxy.ForwardTo(server_->port());
  proxy.CutConnections(/*mean_bytes=*/250'000, /*seed=*/6);
  InitKeys({kNumElements});

  // Every push goes as two stripes.
  AtOnce(kNumClients, [&] {
    const std::unique_ptr<Client> client =
        ClientOf(proxy.address(), {.stream_threshold_bytes = 1,
                                   .part_bytes = 4000,
                                   .min_stripe_bytes = 4000,
                                   .bulk_connections = 2});
    for (int i = 0; i < kNumPushes; ++i) {
      ASSERT_OK(
          client->Push(KeyOf(i), Full({kNumElements}, i + 1, DType::kF64)));
    }
  });

  ExpectSums(kNumClients, kNumPushes);
  EXPECT_GT(proxy.num_cuts(), 10);
}

}  // namespace
}  // namespace tensorkv::testing
