// Clients that are killed in the middle of asynchronous pushes: what was
// acknowledged is there, once, and at most the push that was under way besides.

#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server_process.h"
#include "tests/integration/spawn.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {
namespace {

constexpr char kBinary[] = "tests/integration/fault_pusher";
constexpr int kNumRounds = 20;
constexpr int kNumPushers = 4;

struct Pusher {
  std::string key;
  std::string log;
  pid_t pid = -1;

  uint64_t num_acknowledged() const {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(log, error);
    return error ? 0 : size;
  }
};

TEST(AsyncKillTest, NothingAcknowledgedIsLostOrAppliedTwice) {
  ServerProcess server(
      {"--listen=127.0.0.1:0", "--metrics_listen=", "--budget=64MiB"});
  const std::string target = server.AwaitAddress();
  const std::unique_ptr<Client> client =
      Client::Connect({.target = target, .name_space = "sums"}).value();
  ASSERT_OK(client->CreateNamespace(
      "sums", {.rule = ParseRuleSpec("accumulate").value()}));
  std::mt19937_64 random(/*seed=*/3);
  uint64_t num_pushes = 0;
  int num_under_way = 0;

  for (int round = 0; round < kNumRounds; ++round) {
    std::vector<Pusher> pushers(kNumPushers);
    for (int i = 0; i < kNumPushers; ++i) {
      Pusher& pusher = pushers[i];
      pusher.key = absl::StrCat("round", round, "-", i);
      pusher.log = absl::StrCat(::testing::TempDir(), "/", pusher.key);
      pusher.pid = Spawn({kBinary, target, pusher.key}, pusher.log);
    }
    for (const Pusher& pusher : pushers) {
      while (pusher.num_acknowledged() == 0)
        absl::SleepFor(absl::Seconds(0.001));
    }
    for (const Pusher& pusher : pushers) {
      absl::SleepFor(absl::Microseconds(
          std::uniform_int_distribution<int>(0, 10'000)(random)));
      kill(pusher.pid, SIGKILL);
      waitpid(pusher.pid, nullptr, 0);
    }
    for (const Pusher& pusher : pushers) {
      ASSERT_OK_AND_ASSIGN(const Value value, client->Pull(pusher.key));
      const auto sum =
          static_cast<uint64_t>(value.tensor.elements<double>()[0]);
      const uint64_t acknowledged = pusher.num_acknowledged();
      EXPECT_GE(sum, acknowledged) << pusher.key;
      EXPECT_LE(sum, acknowledged + 1) << pusher.key;
      num_pushes += sum;
      num_under_way += sum > acknowledged ? 1 : 0;
    }
  }
  std::cout << kNumRounds * kNumPushers << " clients were killed after "
            << num_pushes << " pushes, " << num_under_way
            << " of them applied and not acknowledged\n";
}

}  // namespace
}  // namespace tensorkv::testing
