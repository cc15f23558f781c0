// Servers from start to end: signals, drains, restarts, and what they say
// where they cannot start.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/client.h"
#include "client/internal/transfer/grpc_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/contracts/caller.h"
#include "tests/integration/server_process.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::unique_ptr<Server> StartServer(const std::string& listen = "127.0.0.1:0") {
  return Server::Create({.listen = listen,
                         .metrics_listen = "",
                         .device = TestDeviceChoice(),
                         .budget_bytes = 1 << 28,
                         .num_threads = 1})
      .value();
}

// A way to a server without retries, so that every status is seen.
class Remote {
 public:
  explicit Remote(const std::string& target)
      : connection_(GrpcConnection::Create({.target = target}).value()) {}

  Caller store() const { return Caller(*connection_, ""); }

 private:
  const std::unique_ptr<Connection> connection_;
};

// Returns when so many calls wait; the test's own time limit bounds it.
void AwaitWaitingCalls(const Caller& store, uint64_t num_calls) {
  while (store.Describe()->calls_waiting() != num_calls) {
    std::this_thread::yield();
  }
}

TEST(ServerLifecycleTest, ClientOfAServerThatLostItsStateIsToldSo) {
  auto server = StartServer();
  const std::string address = server->address();
  const auto client = Client::Connect({.target = address}).value();
  ASSERT_OK(client->Init("w", Full({2}, 1)));
  server.reset();
  server = StartServer(address);
  const auto other = Client::Connect({.target = address}).value();
  ASSERT_OK(other->Init("w", Full({2}, 5)));

  const auto is_told =
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was restarted"));
  EXPECT_THAT(client->Pull("w"), is_told);
  EXPECT_THAT(client->Push("w", Full({2}, 7)), is_told);
  EXPECT_THAT(client->Push("w", Full({1 << 20}, 7)), is_told);  // streams
  EXPECT_THAT(client->Init("v", Full({2}, 7)), is_told);

  EXPECT_THAT(other->Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
  EXPECT_THAT(other->Pull("v"), StatusIs(StatusCode::kNotFound));
  // Whoever asks what the server is gets an answer.
  EXPECT_OK(client->DescribeServer());
}

TEST(ServerLifecycleTest, ClientWithoutAnyReplyTakesTheServerItFinds) {
  auto server = StartServer();
  const std::string address = server->address();
  const auto client = Client::Connect({.target = address}).value();
  server.reset();
  server = StartServer(address);

  EXPECT_OK(client->Init("w", Full({2}, 1)));
}

const std::vector<std::string>& Flags() {
  static const auto& flags = *new std::vector<std::string>{
      "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", "--budget=64MiB",
      "--drain_timeout=10m"};
  return flags;
}

TEST(ServerProcessTest, SigtermEndsWaitingCallsAndExitsZero) {
  ServerProcess server(Flags());
  {
    const Remote remote(server.AwaitAddress());
    ASSERT_OK(remote.store().Init("w", Full({2}, 1)));
    Background pull([&] { return remote.store().Pull("w", 2); });
    AwaitWaitingCalls(remote.store(), 1);

    server.Signal(SIGTERM);

    EXPECT_THAT(pull.Result(),
                StatusIs(StatusCode::kUnavailable, HasSubstr("shut")));
  }
  // The client has gone: while it is there without a call, it takes gRPC 5
  // seconds to see that the connection is to be closed.
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.ReadAll(), EndsWith("stopped\n"));
}

TEST(ServerProcessTest, LogSaysWhatHappens) {
  ServerProcess server(Flags());
  const Remote remote(server.AwaitAddress());
  const Caller group = remote.store().In("group");

  ASSERT_OK(group.Create({.mode = Mode::kSync, .num_workers = 2}));
  ASSERT_OK(group.Join("mayfly", absl::Milliseconds(100)).status());

  EXPECT_THAT(server.AwaitLine("namespace created: "),
              HasSubstr("namespace=\"group\""));
  EXPECT_THAT(server.AwaitLine("worker joined: "), HasSubstr("mayfly"));
  EXPECT_THAT(server.AwaitLine("worker lost: "), HasSubstr("mayfly"));
}

TEST(ServerProcessTest, SighupEndsNothing) {
  ServerProcess server(Flags());
  const Remote remote(server.AwaitAddress());

  server.Signal(SIGHUP);

  EXPECT_NE(server.AwaitLine("reloaded log_level=info"), "");
  EXPECT_OK(remote.store().Init("w", Full({2}, 1)));
}

// As with `server 2>&1 | grep -m1 ready`, and with Ctrl-C of
// `server 2>&1 | tee log`.
TEST(ServerProcessTest, NeedsNobodyToReadItsLog) {
  const std::string directory = ::testing::TempDir() + "/nobody_reads_the_log";
  std::vector<std::string> flags = Flags();
  flags.push_back("--checkpoint_dir=" + directory);
  ServerProcess server(flags);
  {
    const Remote remote(server.AwaitAddress());
    server.CloseLog();

    EXPECT_OK(remote.store().In("group").Create({}));
    EXPECT_OK(remote.store().Init("w", Full({2}, 1)));
  }
  server.Signal(SIGINT);

  EXPECT_EQ(server.Wait(), 0);
  EXPECT_TRUE(
      std::filesystem::exists(directory + "/auto-000000001/CHECKPOINT"));
}

// Whoever starts it again would do so for ever.
TEST(ServerProcessTest, WhatCannotWorkIsOneLineAndExitCodeTwo) {
  const std::string wrong = ::testing::TempDir() + "/wrong_file";
  std::ofstream(wrong) << "nonsense";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--budget=much"}, "much"},
      {{"--policy_file=" + wrong}, wrong},
      {{"--policy_file=" + wrong + ".absent"}, wrong},
      {{"--tls_cert=" + wrong, "--tls_key=" + wrong}, wrong},
      {{"--device=cuda:1000"}, "--device=cuda:1000: cannot use that GPU"}};
  for (const auto& [wrong_flags, said] : cases) {
    std::vector<std::string> flags = Flags();
    flags.insert(flags.end(), wrong_flags.begin(), wrong_flags.end());
    ServerProcess server(flags);

    const std::string output = server.ReadAll();

    EXPECT_EQ(server.Wait(), 2);
    EXPECT_THAT(output, HasSubstr(said));
    EXPECT_EQ(output.find('\n'), output.size() - 1) << output;
  }
}

TEST(ServerProcessTest, PortInUseIsExitCodeOne) {
  const auto holder = StartServer();

  ServerProcess server(
      {"--listen=" + holder->address(), "--metrics_listen=127.0.0.1:0"});

  EXPECT_THAT(server.ReadAll(), HasSubstr(holder->address()));
  EXPECT_EQ(server.Wait(), 1);
}

// So that whoever started it tries again: the other one may be about to end.
TEST(ServerProcessTest, CheckpointsInUseAreExitCodeOneUntilTheyAreNot) {
  const std::string directory = ::testing::TempDir() + "/checkpoints_in_use";
  const std::vector<std::string> flags = {
      "--listen=127.0.0.1:0",
      "--metrics_listen=", "--checkpoint_dir=" + directory};
  ServerProcess holder(flags);
  ASSERT_NE(holder.AwaitAddress(), "");

  ServerProcess server(flags);

  EXPECT_THAT(server.ReadAll(), HasSubstr(directory));
  EXPECT_EQ(server.Wait(), 1);
  holder.Signal(SIGKILL);
  EXPECT_EQ(holder.Wait(), -1);
  EXPECT_NE(ServerProcess(flags).AwaitAddress(), "");
}

// Trying again would read all of it again, to no avail.
TEST(ServerProcessTest, DamagedCheckpointIsExitCodeTwo) {
  const std::string directory = ::testing::TempDir() + "/damaged_checkpoint";
  const std::vector<std::string> flags = {
      "--listen=127.0.0.1:0",
      "--metrics_listen=", "--checkpoint_dir=" + directory};
  ServerProcess first(flags);
  ASSERT_NE(first.AwaitAddress(), "");
  first.Signal(SIGTERM);
  ASSERT_EQ(first.Wait(), 0);
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(directory)) {
    if (file.is_regular_file()) {
      std::filesystem::resize_file(file.path(), file.file_size() / 2);
    }
  }

  ServerProcess server(flags);

  EXPECT_THAT(server.ReadAll(), HasSubstr("CHECKPOINT: its bytes do not"));
  EXPECT_EQ(server.Wait(), 2);
}

}  // namespace
}  // namespace tensorkv::testing
