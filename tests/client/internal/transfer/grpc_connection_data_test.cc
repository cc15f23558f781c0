#include <memory>
#include <string>

#include "client/internal/transfer/grpc_connection.h"
#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace grpc_connection_data_test {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StartingConnection;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kThreshold = 1 << 20;
constexpr size_t kMaxMessageBytes = 4 << 20;

// Of calls that are waited for and, with true, of those that are started.
class GrpcConnectionDataTest : public ::testing::TestWithParam<bool> {
 protected:
  GrpcConnectionDataTest()
      : connection_(*GrpcConnection::Create(
            {.target = service_.Start(),
             .max_message_bytes = kMaxMessageBytes,
             .transfer = {.stream_threshold_bytes = kThreshold,
                          .bulk_connections = 2}})) {
    if (GetParam()) {
      connection_ =
          std::make_unique<StartingConnection>(std::move(connection_));
    }
  }

  absl::Status Init(int64_t size) {
    return connection_
        ->Call(InitRequest{.entries = {{"w", Patterned(size)}}}, {})
        .status();
  }
  absl::Status Push(int64_t size) {
    return connection_->Call(PushOf(size), {}).status();
  }
  absl::Status PushPull(int64_t size) {
    return connection_->Call(PushPullRequest{PushOf(size)}).status();
  }
  absl::Status Pull() {
    return connection_->Call(PullRequest{.entries = {{"w"}}}, {}).status();
  }
  PushRequest PushOf(int64_t size) {
    return {.entries = {{.key = "w", .tensor = Patterned(size)}}};
  }
  // What the server has behind "w".
  void Store(int64_t size) { service_.values = {{7, Patterned(size)}}; }

  FakeStreamService service_;
  std::unique_ptr<Connection> connection_;
};

INSTANTIATE_TEST_SUITE_P(, GrpcConnectionDataTest, ::testing::Bool());

TEST_P(GrpcConnectionDataTest, LittlePayloadIsOneMessage) {
  Store(kThreshold - 1);

  ASSERT_OK(Init(kThreshold - 1));
  ASSERT_OK(Push(kThreshold - 1));
  ASSERT_OK(PushPull(kThreshold - 1));
  ASSERT_OK(Pull());

  EXPECT_THAT(service_.rpcs(), ElementsAre("Init", "Push", "PushPull", "Pull"));
}

TEST_P(GrpcConnectionDataTest, MuchPayloadIsAStream) {
  Store(kThreshold);

  ASSERT_OK(Init(kThreshold));
  ASSERT_OK(Push(kThreshold));
  ASSERT_OK(PushPull(kThreshold));

  EXPECT_THAT(service_.rpcs(),
              ElementsAre("InitStream", "PushStream", "PushPullStream"));
}

TEST_P(GrpcConnectionDataTest, ManyValuesComeByATicket) {
  for (const int64_t size : {kThreshold, int64_t{2 * kMaxMessageBytes}}) {
    Store(size);

    ASSERT_OK_AND_ASSIGN(const PullReply reply,
                         connection_->Call(PullRequest{.entries = {{"w"}}}));

    EXPECT_EQ(service_.ticket_from_bytes, kThreshold);
    EXPECT_EQ(reply.values.at(0).version, 7u);
    EXPECT_EQ(BytesOf(reply.values.at(0).tensor),
              BytesOf(service_.values[0].tensor));
  }
  EXPECT_EQ(service_.rpcs()[0], "Pull");
  EXPECT_EQ(service_.rpcs()[1], "PullStream");
}

TEST_P(GrpcConnectionDataTest, ValuesOfASmallPushPullComeByATicket) {
  Store(2 * kMaxMessageBytes);

  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       connection_->Call(PushPullRequest{PushOf(1)}));

  EXPECT_EQ(BytesOf(reply.values.at(0).tensor),
            BytesOf(service_.values[0].tensor));
  EXPECT_EQ(service_.rpcs()[0], "PushPull");
  EXPECT_EQ(service_.rpcs()[1], "PullStream");
}

TEST_P(GrpcConnectionDataTest, ValuesOfATicketGoToTheirDestinations) {
  Store(kThreshold);
  std::string memory(kThreshold, ' ');
  const Destination destination = {DType::kU8, Shape({kThreshold}),
                                   absl::MakeSpan(memory)};
  CallOptions options;
  options.destinations = {&destination, 1};

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      connection_->Call(PullRequest{.entries = {{"w"}}}, options));

  EXPECT_EQ(reply.values[0].tensor.data(), memory.data());
  EXPECT_EQ(memory, BytesOf(Patterned(kThreshold)));
}

TEST_P(GrpcConnectionDataTest, TicketThatIsNotThereIsTheCallsError) {
  Store(kThreshold);
  service_.after_manifest = [](const v1::Stripe&) {
    return ToGrpcStatus(testing::StatusOfReason(Reason::kNoTicket, "late"));
  };

  EXPECT_THAT(Pull(), StatusIs(absl::StatusCode::kUnavailable, "late"));
}

TEST_P(GrpcConnectionDataTest, CallerWithABoundTakesNoTicket) {
  ASSERT_OK(
      connection_->Call(PullRequest{.entries = {{"w"}}, .max_reply_bytes = 9}));

  EXPECT_EQ(service_.ticket_from_bytes, 0u);
}

TEST_P(GrpcConnectionDataTest, CallOverItsBudgetIsMadeOnce) {
  service_.status =
      ToGrpcStatus(testing::StatusOfReason(Reason::kOverBudget, "budget"));

  EXPECT_THAT(Pull(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(PushPull(1), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PushPull"));
}

TEST_P(GrpcConnectionDataTest, PullThatIsRefusedOtherwiseSaysSo) {
  service_.status =
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "calls waiting");

  EXPECT_THAT(Pull(),
              StatusIs(absl::StatusCode::kResourceExhausted, "calls waiting"));
}

TEST_P(GrpcConnectionDataTest, NoTimeLeftIsDeadlineExceededWithoutACall) {
  const CallOptions no_time = {.timeout = absl::ZeroDuration()};

  EXPECT_THAT(connection_->Call(InitRequest{}, no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(connection_->Call(PushOf(kThreshold), no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(connection_->Call(PullRequest{}, no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(connection_->Call(PushPullRequest(), no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  EXPECT_THAT(service_.rpcs(), IsEmpty());
}

}  // namespace grpc_connection_data_test
}  // namespace tensorkv
