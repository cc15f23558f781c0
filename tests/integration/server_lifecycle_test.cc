// Servers from start to end: signals, drains, restarts, and what they say
// about themselves over HTTP.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/internal/grpc_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/contracts/caller.h"
#include "tests/integration/server_process.h"
#include "tests/service/http_get.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::unique_ptr<Server> StartServer(const std::string& listen = "127.0.0.1:0",
                                    const std::string& metrics_listen = "") {
  return Server::Create({.listen = listen,
                         .metrics_listen = metrics_listen,
                         .device = TestDeviceChoice(),
                         .budget_bytes = 1 << 28,
                         .num_threads = 1})
      .value();
}

std::unique_ptr<Server> StartServerWithHttp() {
  return StartServer("127.0.0.1:0", "127.0.0.1:0");
}

// A way to a server without retries, so that every status is seen.
class Remote {
 public:
  explicit Remote(const std::string& target)
      : connection_(GrpcConnection::Create({.target = target}).value()) {}

  Caller store() const { return Caller(*connection_, ""); }
  uint64_t Incarnation() const {
    return connection_->Call(DescribeServerRequest())->incarnation;
  }

 private:
  const std::unique_ptr<Connection> connection_;
};

// Returns when so many calls wait; the test's own time limit bounds it.
void AwaitWaitingCalls(const Caller& store, uint64_t num_calls) {
  while (store.Describe()->calls_waiting != num_calls) {
    std::this_thread::yield();
  }
}

TEST(ServerLifecycleTest, TwoServersInOneProcessAreIndependent) {
  const auto first = StartServer();
  const auto second = StartServer();
  const Remote to_first(first->address());
  const Remote to_second(second->address());

  ASSERT_OK(to_first.store().Init("w", Full({2}, 1)));

  EXPECT_THAT(to_second.store().Pull("w"), StatusIs(StatusCode::kNotFound));
  ASSERT_OK(to_second.store().Init("w", Full({2}, 2)));
  EXPECT_THAT(to_first.store().Pull("w"),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_NE(to_first.Incarnation(), to_second.Incarnation());
}

TEST(ServerLifecycleTest, ServerStartsAgainOnTheSamePort) {
  auto server = StartServer();
  const std::string address = server->address();
  // With retries: its calls are repeated until the server is back.
  const auto client = Client::Connect({.target = address}).value();
  ASSERT_OK(client->Init("w", Full({2}, 1)));
  const uint64_t incarnation = client->DescribeServer()->incarnation;

  server.reset();
  server = StartServer(address);

  const auto anew = Client::Connect({.target = address}).value();
  EXPECT_THAT(anew->Pull("w"), StatusIs(StatusCode::kNotFound));
  EXPECT_NE(anew->DescribeServer()->incarnation, incarnation);
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

TEST(ServerLifecycleTest, PortInUseIsRefused) {
  const auto server = StartServer();

  EXPECT_THAT(Server::Create({.listen = server->address()}),
              StatusIs(StatusCode::kUnavailable, HasSubstr(server->address())));
}

TEST(ServerLifecycleTest, HttpShowsHealthAndMetrics) {
  const auto server = StartServerWithHttp();
  const Remote remote(server->address());
  ASSERT_OK(remote.store().Init("w", Full({25}, 1)));

  EXPECT_EQ(HttpGet(server->metrics_port(), "/healthz").code, 200);
  EXPECT_EQ(HttpGet(server->metrics_port(), "/readyz").code, 200);
  EXPECT_EQ(HttpGet(server->metrics_port(), "/else").code, 404);
  const HttpResponse metrics = HttpGet(server->metrics_port(), "/metrics");
  EXPECT_EQ(metrics.code, 200);
  EXPECT_THAT(metrics.body,
              AllOf(HasSubstr("grpc_server_handled_total"),
                    HasSubstr("tensorkv_keys{namespace=\"default\"} 1\n")));
}

TEST(ServerLifecycleTest, ShutdownEndsWaitingCallsAtOnce) {
  const auto server = StartServer();
  const Remote remote(server->address());
  ASSERT_OK(remote.store().Init("w", Full({2}, 1)));
  Background pull([&] { return remote.store().Pull("w", 2); });
  AwaitWaitingCalls(remote.store(), 1);

  server->Shutdown(/*grace=*/absl::Minutes(10));

  EXPECT_THAT(pull.Result(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("shut")));
}

TEST(ServerLifecycleTest, ServerThatIsShutDownIsAliveButNotReady) {
  const auto server = StartServerWithHttp();

  server->Shutdown(absl::ZeroDuration());

  EXPECT_EQ(HttpGet(server->metrics_port(), "/healthz").code, 200);
  EXPECT_EQ(HttpGet(server->metrics_port(), "/readyz").code, 503);
}

// The value of a `name=` field of a log line.
std::string FieldOf(const std::string& line, const std::string& name) {
  for (absl::string_view word : absl::StrSplit(line, ' ')) {
    if (absl::StartsWith(word, name + "=")) {
      return std::string(word.substr(name.size() + 1));
    }
  }
  return "";
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
    const Remote remote(FieldOf(server.AwaitLine("ready listen="), "listen"));
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
  const Remote remote(FieldOf(server.AwaitLine("ready listen="), "listen"));
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
  const Remote remote(FieldOf(server.AwaitLine("ready listen="), "listen"));

  server.Signal(SIGHUP);

  EXPECT_NE(server.AwaitLine("reloaded log_level=info"), "");
  EXPECT_OK(remote.store().Init("w", Full({2}, 1)));
}

TEST(ServerProcessTest, SigintExitsZeroToo) {
  ServerProcess server(Flags());
  server.AwaitLine("ready listen=");

  server.Signal(SIGINT);

  EXPECT_EQ(server.Wait(), 0);
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
TEST(ServerProcessTest, WrongFilesAreOneLineAndExitCodeTwo) {
  const std::string wrong = ::testing::TempDir() + "/wrong_file";
  std::ofstream(wrong) << "nonsense";
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{"--policy_file=" + wrong},
        {"--policy_file=" + wrong + ".absent"},
        {"--tls_cert=" + wrong, "--tls_key=" + wrong}}) {
    std::vector<std::string> flags = Flags();
    flags.insert(flags.end(), files.begin(), files.end());
    ServerProcess server(flags);

    const std::string output = server.ReadAll();

    EXPECT_EQ(server.Wait(), 2);
    EXPECT_THAT(output, HasSubstr(wrong));
    EXPECT_EQ(output.find('\n'), output.size() - 1);
  }
}

TEST(ServerProcessTest, WrongFlagsAreOneLineAndExitCodeTwo) {
  ServerProcess server({"--budget=much"});

  const std::string output = server.ReadAll();

  EXPECT_EQ(server.Wait(), 2);
  EXPECT_THAT(output, AllOf(HasSubstr("--budget"), HasSubstr("much")));
  EXPECT_EQ(output.find('\n'), output.size() - 1);
}

TEST(ServerProcessTest, AddressThatOthersCanReachMustBeWanted) {
  ServerProcess server({"--listen=0.0.0.0:0"});

  EXPECT_THAT(server.ReadAll(), HasSubstr("insecure"));
  EXPECT_EQ(server.Wait(), 2);
}

// There is no such GPU anywhere.
TEST(ServerProcessTest, GpuThatCannotBeUsedIsOneLineAndExitCodeTwo) {
  ServerProcess server({"--device=cuda:1000", "--listen=127.0.0.1:0"});

  const std::string output = server.ReadAll();

  EXPECT_EQ(server.Wait(), 2);
  EXPECT_THAT(output, HasSubstr("--device=cuda:1000: cannot use that GPU"));
  EXPECT_EQ(output.find('\n'), output.size() - 1);
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
