#include "client/internal/calls/wait_queue.h"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "client/internal/transfer/grpc_connection.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::StartingConnection;

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

}  // namespace
}  // namespace tensorkv
