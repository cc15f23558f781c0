#include "client/internal/transfer/grpc_connection.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/internal/transfer/server_incarnation.h"
#include "contract/grpc_status.h"
#include "contract/incarnation_metadata.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace grpc_connection_test {

using std::chrono::system_clock;
using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StartingConnection;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Vector;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kMaxMessageBytes = 10'000;

class GrpcConnectionTest : public ::testing::TestWithParam<std::string> {
 protected:
  GrpcConnectionTest()
      : connection_(
            *GrpcConnection::Create({.target = service_.Start(),
                                     .max_message_bytes = kMaxMessageBytes})) {}

  // A value of `size` u8 elements in the reply to Pull.
  v1::Tensor& AddPulledValue(int64_t size) {
    v1::Value& value = *service_.pull_response.add_values();
    value.set_version(7);
    v1::Tensor& tensor = *value.mutable_tensor();
    tensor.set_dtype(v1::DTYPE_U8);
    tensor.add_shape(size);
    tensor.set_data(std::string(size, '\x05'));
    return tensor;
  }

  FakeService service_;
  std::unique_ptr<Connection> connection_;
};

INSTANTIATE_TEST_SUITE_P(, GrpcConnectionTest,
                         ::testing::ValuesIn(::tensorkv::testing::AllVerbs()));

TEST_P(GrpcConnectionTest, EveryVerbCallsItsRpcAndReturnsTheServersError) {
  const auto expect_outcomes = [this](Connection& connection) {
    service_.status = grpc::Status::OK;
    EXPECT_THAT(CallVerb(GetParam(), connection), IsOk());
    service_.status = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no");
    EXPECT_THAT(CallVerb(GetParam(), connection),
                StatusIs(absl::StatusCode::kFailedPrecondition, "no"));
    // The caller has not cancelled the call.
    service_.status = grpc::Status(grpc::StatusCode::CANCELLED, "");
    EXPECT_THAT(CallVerb(GetParam(), connection),
                StatusIs(absl::StatusCode::kUnavailable));
  };

  expect_outcomes(*connection_);
  StartingConnection started(std::move(connection_));
  expect_outcomes(started);

  EXPECT_THAT(service_.rpcs(), AllOf(SizeIs(6), Each(GetParam())));
}

TEST_F(GrpcConnectionTest, RequestArrivesWhole) {
  service_.init_response.add_versions(1);

  const auto reply =
      connection_->Call(InitRequest{.name_space = "n",
                                    .on_existing = OnExisting::kKeep,
                                    .entries = {{"w", Full({2}, 3)}}},
                        {});

  ASSERT_OK(reply);
  EXPECT_THAT(reply->versions, ElementsAre(1));
  EXPECT_EQ(service_.init_request.namespace_(), "n");
  EXPECT_EQ(service_.init_request.on_existing(), v1::ON_EXISTING_KEEP);
  ASSERT_EQ(service_.init_request.entries_size(), 1);
  EXPECT_EQ(service_.init_request.entries(0).key(), "w");
  EXPECT_EQ(service_.init_request.entries(0).tensor().data().size(), 8);
}

// Casts are of calls that are waited for, and in a message as in a stream.
TEST_F(GrpcConnectionTest, PushIsCastUnlessItIsStarted) {
  const std::vector<SendCast> casts = {{}, {DType::kF16}};
  CallOptions options;
  options.casts = casts;
  const Tensor half = Vector({0.5, -1});
  PushRequest push;
  push.entries = {{.key = "a", .tensor = half}, {.key = "w", .tensor = half}};

  ASSERT_OK(connection_->Call(push, options));
  const v1::Tensor plain = service_.push_request.entries(0).tensor();
  const v1::Tensor cast = service_.push_request.entries(1).tensor();
  EXPECT_EQ(plain.dtype(), v1::DTYPE_F32);
  EXPECT_EQ(cast.dtype(), v1::DTYPE_F16);
  EXPECT_EQ(cast.data(), absl::string_view("\x00\x38\x00\xbc", 4));

  StartingConnection started(std::move(connection_));
  ASSERT_OK(started.Call(push, options));
  EXPECT_EQ(service_.push_request.entries(1).tensor().data(), plain.data());
}

TEST_F(GrpcConnectionTest, MessageWithWhatIsNotFiniteIsNotSent) {
  const std::vector<SendCast> casts = {{DType::kF16}};
  CallOptions options;
  options.casts = casts;
  PushRequest push;
  push.entries = {{.key = "w", .tensor = Vector({NAN})}};

  EXPECT_THAT(connection_->Call(push, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("key \"w\": compression: expected finite")));
  EXPECT_THAT(service_.rpcs(), IsEmpty());
}

TEST_F(GrpcConnectionTest, PulledTensorsOutliveTheConnection) {
  AddPulledValue(1000);
  auto reply = connection_->Call(PullRequest{}, {});
  ASSERT_OK(reply);

  connection_.reset();
  const Tensor tensor = reply->values[0].tensor;
  reply = absl::CancelledError();

  EXPECT_THAT(tensor, IsFilledWith(5));
}

TEST_F(GrpcConnectionTest, MalformedReplyIsInternal) {
  AddPulledValue(10).set_data("too short");

  EXPECT_THAT(connection_->Call(PullRequest{}, {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("reply")));
}

TEST_F(GrpcConnectionTest, ReplyToJoinThatLacksItsWorkerIsInternal) {
  service_.join_response.clear_worker();
  EXPECT_THAT(connection_->Call(JoinRequest(), {}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("malformed reply: worker: missing")));
}

TEST_F(GrpcConnectionTest, KeysCountForTheLimit) {
  EXPECT_THAT(connection_->Call(
                  testing::DeleteOf({std::string(kMaxMessageBytes, 'k')}), {}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at most 10000")));
}

TEST_F(GrpcConnectionTest, LargeReplyOfAServerWithoutStreamsIsAnError) {
  AddPulledValue(kMaxMessageBytes + 1);

  EXPECT_THAT(connection_->Call(PullRequest{}, {}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(GrpcConnectionTest, ServerSeesADeadlineALittleAfterTheCallers) {
  const system_clock::time_point start = system_clock::now();

  ASSERT_OK(connection_->Call(PullRequest{}, {.timeout = absl::Seconds(50)}));

  const auto left = service_.deadlines().at(0) - start;
  EXPECT_GT(left, std::chrono::seconds(50));
  EXPECT_LT(left, std::chrono::seconds(60));
}

TEST_F(GrpcConnectionTest, SilentServerIsDeadlineExceeded) {
  Notification finish;
  service_.during_call = [&] { finish.WaitForNotification(); };

  EXPECT_THAT(
      connection_->Call(PullRequest{}, {.timeout = absl::Milliseconds(1)}),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               "no answer from the server within 1ms"));

  finish.Notify();
  service_.Stop();
}

TEST_F(GrpcConnectionTest, NoServerIsUnavailable) {
  service_.Stop();

  EXPECT_THAT(connection_->Call(DescribeServerRequest()),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(GrpcConnectionTest, PushPullStatesTheReplyThatItTakes) {
  ASSERT_OK(connection_->Call(PushPullRequest()));
  EXPECT_EQ(service_.push_pull_request.max_reply_bytes(), kMaxMessageBytes);
  EXPECT_EQ(service_.push_pull_request.ticket_from_bytes(),
            TransferOptions().stream_threshold_bytes);

  PushPullRequest request;
  request.max_reply_bytes = 77;
  ASSERT_OK(connection_->Call(request));
  EXPECT_EQ(service_.push_pull_request.max_reply_bytes(), 77);
  EXPECT_EQ(service_.push_pull_request.ticket_from_bytes(), 0);
}

// Names its incarnation, and refuses calls that expect another one.
class IncarnateService final : public FakeService {
 public:
  grpc::Status DescribeNamespace(grpc::ServerContext* context,
                                 const v1::DescribeNamespaceRequest*,
                                 v1::DescribeNamespaceResponse*) override {
    return Check(context);
  }
  grpc::Status Pull(grpc::ServerContext* context, const v1::PullRequest*,
                    v1::PullResponse*) override {
    return Check(context);
  }

  uint64_t incarnation = 0xab;

 private:
  grpc::Status Check(grpc::ServerContext* context) const {
    const std::string own = FormatIncarnation(incarnation);
    const auto& metadata = context->client_metadata();
    const auto expected = metadata.find(kIncarnationMetadata);
    if (expected != metadata.end() && expected->second != own) {
      return ToGrpcStatus(WithReason(absl::FailedPreconditionError("another"),
                                     Reason::kServerRestarted));
    }
    context->AddInitialMetadata(kIncarnationMetadata, own);
    return grpc::Status::OK;
  }
};

TEST(GrpcConnectionServerTest, DescribeTakesAnyIncarnationAndLearnsTheFirst) {
  IncarnateService service;
  const auto known = std::make_shared<ServerIncarnation>();
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Connection> connection,
      GrpcConnection::Create({.target = service.Start(), .server = known}));
  ASSERT_OK(connection->Call(DescribeNamespaceRequest()));
  EXPECT_EQ(known->incarnation(), 0xab);

  service.incarnation = 0xcd;
  EXPECT_OK(connection->Call(DescribeNamespaceRequest()));

  EXPECT_EQ(known->incarnation(), 0xab);
  EXPECT_THAT(connection->Call(PullRequest()),
              HasReason(Reason::kServerRestarted));
}

TEST(GrpcConnectionStreamTest, TensorsOverTheMessageLimitAreNoError) {
  FakeStreamService service;
  service.values = {{7, Full({3 * kMaxMessageBytes}, 5, DType::kU8)}};
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Connection> connection,
      GrpcConnection::Create(
          {.target = service.Start(), .max_message_bytes = kMaxMessageBytes}));

  EXPECT_OK(connection->Call(
      InitRequest{.entries = {{"w", service.values[0].tensor}}}, {}));
  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       connection->Call(PullRequest{.entries = {{"w"}}}, {}));

  EXPECT_THAT(service.rpcs(), ElementsAre("InitStream", "Pull", "PullStream"));
  EXPECT_THAT(reply.values.at(0).tensor, IsFilledWith(5));
}

TEST(GrpcConnectionStreamTest, RowsOverTheMessageLimitAreNoError) {
  FakeStreamService service;
  service.values = {{7, Full({2, 2 * kMaxMessageBytes}, 5, DType::kU8)}};
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Connection> connection,
      GrpcConnection::Create(
          {.target = service.Start(), .max_message_bytes = kMaxMessageBytes}));
  const auto rows = *RowIds::Create(Vector({9, 4}, DType::kI32));
  PushRowsRequest push;
  push.entries = {
      {.key = "w", .tensor = service.values[0].tensor, .rows = rows}};
  PullRowsRequest pull;
  pull.entries = {{.key = "w", .rows = rows}};

  EXPECT_OK(connection->Call(push, {}));
  ASSERT_OK_AND_ASSIGN(const PullReply reply, connection->Call(pull, {}));

  EXPECT_THAT(service.rpcs(),
              ElementsAre("PushStream", "PullRows", "PullStream"));
  EXPECT_THAT(reply.values.at(0).tensor, IsFilledWith(5));
  const auto streams = service.streams();
  EXPECT_EQ(streams.front().push.push_rows().entries(0).rows().shape(0), 2);
  EXPECT_EQ(streams.back().pull.ticket(), "ticket");
}

TEST(GrpcConnectionStatesTest, LargeStatesGoAndComeAsStreams) {
  testing::FakeStreamService service;
  service.values = {{1, Full({2 * kMaxMessageBytes / 4}, 5)}};
  service.init_response.add_versions(3);
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Connection> connection,
      GrpcConnection::Create(
          {.target = service.Start(), .max_message_bytes = kMaxMessageBytes}));
  const SetStateRequest set = {
      .entries = {{"w", "momentum", service.values[0].tensor}}};
  const GetStateRequest get = {.entries = {{"w", "momentum"}}};

  ASSERT_OK_AND_ASSIGN(const SetStateReply reply, connection->Call(set, {}));
  ASSERT_OK_AND_ASSIGN(const GetStateReply states, connection->Call(get, {}));

  EXPECT_THAT(service.rpcs(),
              ElementsAre("InitStream", "GetState", "PullStream"));
  EXPECT_THAT(reply.versions, ElementsAre(3));
  EXPECT_THAT(states.values.at(0).tensor, IsFilledWith(5));
  const auto streams = service.streams();
  EXPECT_EQ(streams.front().init.set_state().entries(0).state(), "momentum");
}

TEST(GrpcConnectionCreateTest, TargetWithoutPortOrSchemeIsInvalid) {
  for (const char* target : {"", "localhost", "127.0.0.1"}) {
    EXPECT_THAT(
        GrpcConnection::Create({.target = target}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("target")));
  }
}

// gRPC would take the rest of its division by 65536.
TEST(GrpcConnectionCreateTest, TargetWithAPortThatThereIsNoneOfIsInvalid) {
  for (const char* target :
       {"localhost:65536", "127.0.0.1:72899", "[::1]:99999999999999999999",
        "dns:///localhost:65536", "ipv4:127.0.0.1:80,127.0.0.1:65537"}) {
    EXPECT_THAT(
        GrpcConnection::Create({.target = target}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65535")));
  }
  for (const char* target :
       {"localhost:65535", "unix:/tmp/socket:65536", "dns:///localhost:https",
        "ipv4:127.0.0.1:80,127.0.0.1:65535"}) {
    EXPECT_OK(GrpcConnection::Create({.target = target}));
  }
}

TEST(GrpcConnectionCreateTest, LimitsThatNoMessageHasAreInvalid) {
  const size_t two_gib = size_t{1} << 31;

  EXPECT_THAT(
      GrpcConnection::Create({.target = "x:1", .transfer = {.part_bytes = 0}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("part_bytes")));
  EXPECT_THAT(
      GrpcConnection::Create({.target = "x:1", .max_message_bytes = 1023}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("max_message_bytes")));
  EXPECT_THAT(
      GrpcConnection::Create({.target = "x:1", .max_message_bytes = two_gib}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("max_message_bytes")));
}

}  // namespace grpc_connection_test
}  // namespace tensorkv
