// What tasks hold is let go of once, whatever the compiler makes of them.

#include "client/internal/calls/task.h"

#include <memory>
#include <utility>

#include "client/internal/retry/retrying_connection.h"
#include "client/internal/transfer/grpc_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StartingConnection;

// Answers Unavailable twice, and then as it should.
class FlakyServerTest : public ::testing::TestWithParam<bool> {
 protected:
  FlakyServerTest() {
    service_.during_call = [this] {
      service_.status =
          num_calls_++ % 3 < 2
              ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "down")
              : grpc::Status::OK;
    };
    connection_ = std::make_unique<RetryingConnection>(
        *GrpcConnection::Create({.target = service_.Start()}),
        Backoff{.initial = absl::Microseconds(10)}, SystemRetryEnvironment());
    if (GetParam()) {
      connection_ =
          std::make_unique<StartingConnection>(std::move(connection_));
    }
  }
  ~FlakyServerTest() override { service_.Stop(); }

  int num_calls_ = 0;
  FakeService service_;
  std::unique_ptr<Connection> connection_;
};
INSTANTIATE_TEST_SUITE_P(, FlakyServerTest, ::testing::Bool());

TEST_P(FlakyServerTest, RepeatsLeaveTheCancellerToItsOwner) {
  const auto canceller = std::make_shared<Canceller>();

  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(CallVerb("Stat", *connection_, {.canceller = canceller}),
                IsOk());
  }

  EXPECT_EQ(canceller.use_count(), 1);
  EXPECT_EQ(num_calls_, 300);
}

}  // namespace
}  // namespace tensorkv
