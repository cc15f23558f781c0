// Servers that are killed at any moment and started again, empty: whoever has
// seen the former one is told, and nothing of theirs appears on the new one.

#include <atomic>
#include <csignal>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

constexpr int kNumClients = 4;
constexpr int kNumKills = 6;
constexpr int kMaxDelayUs = 20'000;

std::string KeyOf(int client) { return absl::StrCat("of", client); }

std::unique_ptr<Client> ClientOf(const std::string& address) {
  return Client::Connect({.target = address, .timeout = absl::Minutes(1)})
      .value();
}

class ServerKillTest : public ::testing::Test {
 protected:
  ServerKillTest() { Start("127.0.0.1:0"); }

  void Start(const std::string& listen) {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        absl::StrCat("--listen=", listen), "--metrics_listen=127.0.0.1:0",
        "--budget=64MiB"});
    address_ = server_->AwaitAddress();
  }

  void KillAndStartAgain() {
    server_->Signal(SIGKILL);
    server_->Wait();
    Start(address_);
  }

  std::unique_ptr<ServerProcess> server_;
  std::string address_;
};

TEST_F(ServerKillTest, NobodyComputesOnAServerThatWasEmptied) {
  std::mt19937_64 random(/*seed=*/11);
  for (int kill = 0; kill < kNumKills; ++kill) {
    std::atomic<int> num_at_work = 0;
    std::vector<absl::Status> ends(kNumClients);
    std::vector<std::thread> clients;
    for (int i = 0; i < kNumClients; ++i) {
      clients.emplace_back([&, i] {
        const std::unique_ptr<Client> client = ClientOf(address_);
        ends[i] = client->Init(KeyOf(i), Full({64}, 0));
        ++num_at_work;
        while (ends[i].ok()) {
          ends[i] = client->PushPull(KeyOf(i), Full({64}, 1)).status();
        }
      });
    }
    while (num_at_work < kNumClients) std::this_thread::yield();
    absl::SleepFor(absl::Microseconds(
        std::uniform_int_distribution<int>(0, kMaxDelayUs)(random)));

    KillAndStartAgain();

    for (std::thread& client : clients) client.join();
    const std::unique_ptr<Client> anew = ClientOf(address_);
    for (int i = 0; i < kNumClients; ++i) {
      EXPECT_THAT(ends[i], StatusIs(StatusCode::kFailedPrecondition,
                                    HasSubstr("was restarted")));
      EXPECT_THAT(anew->Pull(KeyOf(i)), StatusIs(StatusCode::kNotFound));
    }
  }
}

}  // namespace
}  // namespace tensorkv::testing
