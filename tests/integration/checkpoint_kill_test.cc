// Servers that are killed while they write checkpoints and take pushes, and
// started again from what is on the disk: --kills=N, 6 by default.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server_process.h"
#include "tests/service/http_get.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr int kNumPushers = 3;
constexpr int kMaxDelayUs = 60'000;

int NumKills() {
  int kills = 6;
  for (absl::string_view argument : ::testing::internal::GetArgvs()) {
    if (absl::ConsumePrefix(&argument, "--kills=")) {
      EXPECT_TRUE(absl::SimpleAtoi(argument, &kills));
    }
  }
  return kills;
}

std::unique_ptr<Client> ClientOf(const std::string& address) {
  return Client::Connect({.target = address, .timeout = absl::Minutes(1)})
      .value();
}

// Adds 1 to two keys in one call, again and again.
struct Pusher {
  int index = 0;
  // How often that was begun, and acknowledged.
  std::atomic<int> begun = 0;
  std::atomic<int> acknowledged = 0;
  // Acknowledged when the last checkpoint began that was acknowledged.
  int saved = 0;

  std::vector<std::string> keys() const {
    return {absl::StrCat("a", index), absl::StrCat("b", index)};
  }
  // Counts itself once it has seen the server: no other one will do then. It
  // does so too if it cannot see it, so that nobody waits for it.
  absl::Status Run(const std::string& address, std::atomic<int>& num_at_work) {
    const std::unique_ptr<Client> client = ClientOf(address);
    absl::Status seen = client->Pull(keys()).status();
    EXPECT_OK(seen);
    ++num_at_work;
    if (!seen.ok()) return seen;
    for (;;) {
      std::vector<PushEntry> entries;
      for (const std::string& key : keys()) {
        entries.push_back({key, false, Full({64}, 1)});
      }
      ++begun;
      const absl::Status status = client->Push(std::move(entries)).status();
      if (!status.ok()) return status;
      ++acknowledged;
    }
  }
};

class CheckpointKillTest : public ::testing::Test {
 protected:
  CheckpointKillTest() {
    for (int i = 0; i < kNumPushers; ++i) pushers_[i].index = i;
    std::filesystem::remove_all(directory_);
    Start("127.0.0.1:0");
  }
  ~CheckpointKillTest() override { std::filesystem::remove_all(directory_); }

  void Start(const std::string& listen) {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        absl::StrCat("--listen=", listen), "--metrics_listen=127.0.0.1:0",
        "--budget=256MiB", absl::StrCat("--checkpoint_dir=", directory_),
        "--checkpoint_full_every=3"});
    address_ = server_->AwaitAddress();
  }

  // Saves until the server goes.
  void SaveAgainAndAgain(std::atomic<int>& num_at_work) {
    const std::unique_ptr<Client> client = ClientOf(address_);
    EXPECT_OK(client->ListCheckpoints());
    ++num_at_work;
    for (;;) {
      std::array<int, kNumPushers> acknowledged;
      for (int i = 0; i < kNumPushers; ++i) {
        acknowledged[i] = pushers_[i].acknowledged;
      }
      const auto saved = client->SaveCheckpoint();
      if (!saved.ok()) return;
      for (int i = 0; i < kNumPushers; ++i) pushers_[i].saved = acknowledged[i];
      if (!last_.empty()) client->DeleteCheckpoint(last_).IgnoreError();
      last_ = saved->name();
    }
  }

  void CheckRestored() {
    const std::unique_ptr<Client> client = ClientOf(address_);
    const auto checkpoints = client->ListCheckpoints();
    ASSERT_OK(checkpoints);
    for (const CheckpointStatus& each : *checkpoints) {
      EXPECT_OK(client->VerifyCheckpoint(each.name()));
    }
    for (Pusher& pusher : pushers_) {
      const auto values = client->Pull(pusher.keys());
      ASSERT_OK(values);
      const float a = values->values[0].tensor.elements<float>()[0];
      for (const Value& value : values->values) {
        for (const float element : value.tensor.elements<float>()) {
          ASSERT_EQ(element, a);
        }
      }
      EXPECT_GE(a, pusher.saved);
      EXPECT_LE(a, pusher.begun);
      pusher.begun = pusher.acknowledged = pusher.saved = static_cast<int>(a);
    }
  }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/killed-checkpoints");
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
  std::array<Pusher, kNumPushers> pushers_;
  std::string last_;
};

TEST_F(CheckpointKillTest, TheLastWholeCheckpointIsRestoredWhenever) {
  {
    const std::unique_ptr<Client> client = ClientOf(address_);
    ASSERT_OK(client->SetRule({.name = "accumulate"}));
    for (const Pusher& pusher : pushers_) {
      for (const std::string& key : pusher.keys()) {
        ASSERT_OK(client->Init(key, Full({64}, 0)));
      }
    }
    // Something that takes time to write.
    ASSERT_OK(client->Init("ballast", Full({1 << 20}, 1)));
    ASSERT_OK(client->SaveCheckpoint("first"));
  }
  std::mt19937_64 random(/*seed=*/7);
  for (int kill = 0; kill < NumKills(); ++kill) {
    std::vector<std::thread> threads;
    std::atomic<int> num_at_work = 0;
    std::array<absl::Status, kNumPushers> ends;
    for (int i = 0; i < kNumPushers; ++i) {
      threads.emplace_back(
          [&, i] { ends[i] = pushers_[i].Run(address_, num_at_work); });
    }
    threads.emplace_back([&] { SaveAgainAndAgain(num_at_work); });
    while (num_at_work < kNumPushers + 1) std::this_thread::yield();
    // The moment is to be any, also one at which nothing can be seen.
    absl::SleepFor(absl::Microseconds(
        std::uniform_int_distribution<int>(0, kMaxDelayUs)(random)));

    server_->Signal(SIGKILL);
    server_->Wait();
    Start(address_);

    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& end : ends) {
      // Or it was acknowledged before, and its repeat has the answer; the next
      // one is refused.
      EXPECT_THAT(end, StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("was restarted")));
    }
    CheckRestored();
  }
}

TEST_F(CheckpointKillTest, ACallRestoresWhileTheServerGoesOn) {
  const std::unique_ptr<Client> client = ClientOf(address_);
  ASSERT_OK(client->Init("k", Full({64}, 1)));
  ASSERT_OK(client->SaveCheckpoint("then"));
  ASSERT_OK(client->Push("k", Full({64}, 2)));

  RestoreCheckpointRequest all;
  all.set_name("then");
  RestoreCheckpointRequest beside = all;
  beside.add_namespaces("default");
  beside.set_as_namespace("former");
  ASSERT_OK(client->RestoreCheckpoint(beside));
  EXPECT_THAT(client->RestoreCheckpoint(all),
              StatusIs(StatusCode::kAlreadyExists));

  const std::unique_ptr<Client> former =
      Client::Connect({.target = address_, .name_space = "former"}).value();
  EXPECT_THAT(former->Pull("k"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(client->Pull("k"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  all.set_on_existing(v1::ON_EXISTING_REPLACE);
  ASSERT_OK(client->RestoreCheckpoint(all));
  EXPECT_THAT(client->Pull("k"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

// A pipe in place of a file has the server wait in the middle of it. It is no
// checkpoint, so the one before it is restored in the end.
TEST_F(CheckpointKillTest, ReadinessTellsHowFarTheRestoringIs) {
  {
    const std::unique_ptr<Client> client = ClientOf(address_);
    ASSERT_OK(client->Init("k", Full({64}, 1)));
    ASSERT_OK(client->SaveCheckpoint("first"));
    ASSERT_OK(client->SaveCheckpoint("second"));
  }
  server_->Signal(SIGKILL);
  server_->Wait();
  const std::string file = directory_ + "/second/0000-00000-values.safetensors";
  ASSERT_TRUE(std::filesystem::remove(file));
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
      "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", "--budget=256MiB",
      absl::StrCat("--checkpoint_dir=", directory_), "--checkpoint_fallback"});
  const std::string starting = server_->AwaitLine("starting metrics=");
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(starting.substr(starting.rfind(':') + 1), &port))
      << starting;
  server_->AwaitLine("checkpoint being restored: name=second");

  const HttpResponse ready = HttpGet(port, "/readyz");
  EXPECT_EQ(ready.code, 503);
  EXPECT_THAT(
      ready.body,
      MatchesRegex("restoring checkpoint second, 0 of [1-9][0-9]* bytes\n"));
  EXPECT_EQ(HttpGet(port, "/healthz").code, 200);
  EXPECT_THAT(HttpGet(port, "/metrics").body,
              HasSubstr("tensorkv_connections_open 0"));

  close(open(file.c_str(), O_WRONLY));
  const std::string address = server_->AwaitAddress();
  EXPECT_EQ(HttpGet(port, "/readyz").code, 200);
  EXPECT_THAT(ClientOf(address)->Pull("k"),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_F(CheckpointKillTest, ASigtermKeepsAllThatWasAcknowledged) {
  {
    const std::unique_ptr<Client> client = ClientOf(address_);
    ASSERT_OK(client->SetRule({.name = "accumulate"}));
    ASSERT_OK(client->Init("k", Full({64}, 0)));
    for (int i = 0; i < 5; ++i) ASSERT_OK(client->Push("k", Full({64}, 1)));
  }
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  Start(address_);

  const auto value = ClientOf(address_)->Pull("k");

  ASSERT_OK(value);
  EXPECT_EQ(value->tensor.elements<float>()[0], 5);
}

}  // namespace
}  // namespace tensorkv::testing
