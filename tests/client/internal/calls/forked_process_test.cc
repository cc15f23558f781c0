// Calls in a process that was forked from one that makes calls.

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "client/internal/calls/wait_queue.h"
#include "client/internal/transfer/grpc_connection.h"
#include "client/pipeline.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/gated_connection.h"
#include "tests/client/scripted_worker.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::EncodeAll;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::Gate;
using ::tensorkv::testing::GatedConnection;
using ::tensorkv::testing::ScriptedWorkerTest;
using ::tensorkv::testing::StartingConnection;
using ::tensorkv::testing::StatusIs;

// Returns how a call ends in a process that is forked from this one; Unknown
// where it does not.
absl::StatusCode EndInAFork(absl::FunctionRef<absl::Status()> call) {
  constexpr unsigned kMostSeconds = 20;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    _exit(static_cast<int>(call().code()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<absl::StatusCode>(WEXITSTATUS(status))
                           : absl::StatusCode::kUnknown;
}

// The first, before this process has a connection.
TEST(ForkedProcessTest, MayConnectWhereItsParentHasNot) {
  EXPECT_THAT(GrpcConnection::Create({.target = "mistyped"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));

  EXPECT_EQ(EndInAFork([] {
              return GrpcConnection::Create({.target = "host:1"}).status();
            }),
            absl::StatusCode::kOk);
}

TEST(ForkedProcessTest, CallsEndAtOnce) {
  FakeService service;
  const GrpcConnectionOptions options = {.target = service.Start()};
  const std::unique_ptr<Connection> connection =
      *GrpcConnection::Create(options);
  StartingConnection starting(*GrpcConnection::Create(options));
  ASSERT_OK(CallVerb("Stat", starting));

  EXPECT_EQ(EndInAFork([&] { return CallVerb("Stat", starting); }),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(EndInAFork([&] { return CallVerb("Stat", *connection); }),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      EndInAFork([&] { return GrpcConnection::Create(options).status(); }),
      absl::StatusCode::kFailedPrecondition);

  EXPECT_OK(CallVerb("Stat", *connection));
  service.Stop();
}

TEST(ForkedProcessTest, CallsOfAPipelineEndAtOnce) {
  BindToThisProcess();
  Gate gate;
  gate.Close();
  Client client(std::make_unique<GatedConnection>(gate), {});
  auto pipeline =
      std::make_unique<Pipeline>(&client, PipelineOptions{.max_in_flight = 1});
  auto of_parent = pipeline->Pull("a");
  gate.WaitForWaiting(1);

  EXPECT_EQ(EndInAFork([&] {
              absl::Status status = pipeline->Pull("a").get().status();
              pipeline = nullptr;
              return status;
            }),
            absl::StatusCode::kFailedPrecondition);

  gate.Open();
  EXPECT_OK(of_parent.get());
}

class ForkedWorkerTest : public ScriptedWorkerTest {
 protected:
  // Returns how a push ends that is encoded on a thread of `threads`.
  static absl::Status Push(Client& client, CallThreads& threads) {
    std::vector<PushEntry> entries(1);
    entries[0] = {.key = "a", .tensor = Full({2}, 1)};
    absl::Status ended;
    Notification has_ended;
    client.StartPush(std::move(entries), {}, threads, [&](auto reply) {
      ended = reply.status();
      has_ended.Notify();
    });
    has_ended.WaitForNotification();
    return ended;
  }
};

TEST_F(ForkedWorkerTest, StartedPushesThatAreEncodedEndAtOnce) {
  BindToThisProcess();
  Client client = MakeClient({.compression = EncodeAll("f16")});
  CallThreads threads(1);
  ASSERT_OK(Push(client, threads));

  EXPECT_EQ(EndInAFork([&] { return Push(client, threads); }),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ForkedWorkerTest, WorkerOfTheParentGoesAndStays) {
  BindToThisProcess();
  std::unique_ptr<WorkerClient> worker = JoinedWorker({});

  EXPECT_EQ(EndInAFork([&] {
              worker = nullptr;
              return absl::OkStatus();
            }),
            absl::StatusCode::kOk);

  EXPECT_OK(worker->membership());
}

}  // namespace
}  // namespace tensorkv
