// Raw requests to a live server: whatever comes, the answer is a status that
// says what was wrong, the values stay, and the server goes on.

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tensorkv/v1/service.grpc.pb.h"
#include "tests/integration/random_requests.h"
#include "tests/testing/background.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

using ::grpc::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr uint64_t kMaxMessageBytes = 1 << 20;
constexpr std::chrono::milliseconds kLong = std::chrono::seconds(30);

MATCHER_P(HasCode, code, absl::StrCat("has the code ", code)) {
  *result_listener << arg.error_code() << ": " << arg.error_message();
  return arg.error_code() == code;
}
MATCHER_P2(HasCode, code, message, absl::StrCat("has the code ", code)) {
  *result_listener << arg.error_code() << ": " << arg.error_message();
  return arg.error_code() == code &&
         ::testing::ExplainMatchResult(message, arg.error_message(),
                                       result_listener);
}

v1::Tensor F32Tensor(const std::vector<int64_t>& shape, size_t payload_bytes) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_data(std::string(payload_bytes, '\0'));
  return tensor;
}

void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds in) {
  context.set_deadline(std::chrono::system_clock::now() + in);
}

class MalformedRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_THAT(Init("canary", F32Tensor({3}, 12)), HasCode(StatusCode::OK));
  }

  // The canary's value is as it was, so the server works and kept it.
  void TearDown() override {
    v1::PullResponse response;
    ASSERT_THAT(Pull("canary", &response), HasCode(StatusCode::OK));
    ASSERT_EQ(response.values_size(), 1);
    EXPECT_EQ(response.values(0).version(), 1);
    EXPECT_EQ(response.values(0).tensor().data(), std::string(12, '\0'));
  }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    return grpc::CreateChannel(server_->address(),
                               grpc::InsecureChannelCredentials());
  }

  // Sends `request` as it is.
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::TensorKV::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(context, kLong);
    return (*stub_.*method)(&context, request, response);
  }

  grpc::Status Init(const std::string& key, const v1::Tensor& tensor) {
    v1::InitRequest request;
    v1::InitEntry& entry = *request.add_entries();
    entry.set_key(key);
    *entry.mutable_tensor() = tensor;
    v1::InitResponse response;
    return Call(&v1::TensorKV::Stub::Init, request, &response);
  }

  grpc::Status Push(const v1::PushEntry& entry) {
    v1::PushRequest request;
    *request.add_entries() = entry;
    v1::PushResponse response;
    return Call(&v1::TensorKV::Stub::Push, request, &response);
  }

  grpc::Status Pull(const std::string& key, v1::PullResponse* response) {
    v1::PullRequest request;
    request.add_entries()->set_key(key);
    return Call(&v1::TensorKV::Stub::Pull, request, response);
  }

  grpc::Status Create(const v1::NamespaceConfig& config) {
    v1::CreateNamespaceRequest request;
    request.set_namespace_("new");
    *request.mutable_config() = config;
    v1::CreateNamespaceResponse response;
    return Call(&v1::TensorKV::Stub::CreateNamespace, request, &response);
  }

  uint64_t CallsWaiting() {
    v1::DescribeNamespaceRequest request;
    v1::DescribeNamespaceResponse response;
    EXPECT_THAT(
        Call(&v1::TensorKV::Stub::DescribeNamespace, request, &response),
        HasCode(StatusCode::OK));
    return response.status().calls_waiting();
  }

  // Returns when so many calls wait; the test's own time limit bounds it.
  void AwaitCallsWaiting(uint64_t num_calls) {
    while (CallsWaiting() != num_calls) std::this_thread::yield();
  }

  const std::unique_ptr<Server> server_ =
      Server::Create({.listen = "127.0.0.1:0",
                      .device = TestDeviceChoice(),
                      .budget_bytes = 64 << 20,
                      .num_threads = 1,
                      .max_message_bytes = kMaxMessageBytes})
          .value();
  const std::unique_ptr<v1::TensorKV::Stub> stub_ =
      v1::TensorKV::NewStub(NewChannel());
};

TEST_F(MalformedRequestsTest, NegativeDimension) {
  EXPECT_THAT(Init("w", F32Tensor({2, -3}, 24)),
              HasCode(StatusCode::INVALID_ARGUMENT,
                      AllOf(HasSubstr("\"w\""), HasSubstr("-3"))));
  EXPECT_THAT(Init("w", F32Tensor({kInt64Min}, 0)),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("\"w\"")));
  EXPECT_THAT(Init("w", F32Tensor({-1, -1}, 4)),
              HasCode(StatusCode::INVALID_ARGUMENT));
}

TEST_F(MalformedRequestsTest, OverflowingDimensions) {
  const std::vector<std::vector<int64_t>> shapes = {
      {kInt64Max},
      {kInt64Max, kInt64Max},
      {int64_t{1} << 62, 4},
      {int64_t{1} << 61},
      {0, int64_t{1} << 62, int64_t{1} << 62},
      {int64_t{1} << 32, int64_t{1} << 32}};

  for (const auto& shape : shapes) {
    EXPECT_THAT(Init("w", F32Tensor(shape, 0)),
                HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("\"w\"")));
  }
}

TEST_F(MalformedRequestsTest, RankAboveEight) {
  EXPECT_THAT(Init("w", F32Tensor(std::vector<int64_t>(9, 1), 4)),
              HasCode(StatusCode::INVALID_ARGUMENT,
                      AllOf(HasSubstr("\"w\""), HasSubstr("9"))));
  EXPECT_THAT(Init("w", F32Tensor(std::vector<int64_t>(10000, 1), 4)),
              HasCode(StatusCode::INVALID_ARGUMENT));
}

TEST_F(MalformedRequestsTest, PayloadThatDoesNotFitTheShape) {
  EXPECT_THAT(Init("w", F32Tensor({2, 3}, 23)),
              HasCode(StatusCode::INVALID_ARGUMENT,
                      AllOf(HasSubstr("\"w\""), HasSubstr("f32[2,3]"),
                            HasSubstr("24"), HasSubstr("23"))));
  EXPECT_THAT(Init("w", F32Tensor({2, 3}, 25)),
              HasCode(StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(Init("w", F32Tensor({}, 0)),
              HasCode(StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(Init("w", F32Tensor({0}, 4)),
              HasCode(StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(Init("w", F32Tensor({1 << 30, 1 << 20}, 8)),
              HasCode(StatusCode::INVALID_ARGUMENT));
}

TEST_F(MalformedRequestsTest, UnknownDType) {
  v1::Tensor tensor = F32Tensor({1}, 4);

  tensor.set_dtype(v1::DTYPE_UNSPECIFIED);
  EXPECT_THAT(Init("w", tensor),
              HasCode(StatusCode::INVALID_ARGUMENT,
                      AllOf(HasSubstr("\"w\""), HasSubstr("dtype"))));
  tensor.set_dtype(static_cast<v1::DType>(99));
  EXPECT_THAT(Init("w", tensor),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("99")));
}

TEST_F(MalformedRequestsTest, EntryWithoutTensor) {
  v1::PushEntry entry;
  entry.set_key("canary");

  EXPECT_THAT(Push(entry),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("\"canary\"")));
}

TEST_F(MalformedRequestsTest, EncodingThatNobodyKnowsSaysSo) {
  v1::PushEntry entry;
  entry.set_key("canary");
  *entry.mutable_tensor() = F32Tensor({3}, 12);
  entry.mutable_encoding();
  EXPECT_THAT(Push(entry), HasCode(StatusCode::UNIMPLEMENTED));
}

TEST_F(MalformedRequestsTest, NamespaceThatCannotBe) {
  v1::NamespaceConfig config;
  config.set_mode(static_cast<v1::Mode>(77));
  EXPECT_THAT(Create(config), HasCode(StatusCode::INVALID_ARGUMENT));
  config.set_mode(v1::MODE_SYNC);
  config.set_num_workers(2);
  config.set_on_worker_loss(static_cast<v1::OnWorkerLoss>(77));
  EXPECT_THAT(Create(config), HasCode(StatusCode::INVALID_ARGUMENT));
  config.clear_on_worker_loss();
  config.set_quorum(3);
  EXPECT_THAT(Create(config),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("quorum")));
  config.set_quorum(1);
  config.mutable_quorum_grace()->set_seconds(-1);
  EXPECT_THAT(Create(config),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("quorum_grace")));
}

TEST_F(MalformedRequestsTest, MessageAboveTheLimit) {
  EXPECT_THAT(Init("w", F32Tensor({1 << 19}, 2 << 20)),
              HasCode(StatusCode::RESOURCE_EXHAUSTED, HasSubstr("1048576")));
}

TEST_F(MalformedRequestsTest, ReplyAboveTheLimit) {
  ASSERT_THAT(Init("w", F32Tensor({150000}, 600000)), HasCode(StatusCode::OK));
  v1::PullRequest request;
  request.add_entries()->set_key("w");
  request.add_entries()->set_key("w");
  v1::PullResponse response;

  EXPECT_THAT(Call(&v1::TensorKV::Stub::Pull, request, &response),
              HasCode(StatusCode::RESOURCE_EXHAUSTED, HasSubstr("1048576")));
}

TEST_F(MalformedRequestsTest, DeadlineThatHasPassed) {
  grpc::ClientContext context;
  SetDeadline(context, std::chrono::seconds(-1));
  v1::DeleteRequest request;
  request.add_keys("canary");
  v1::DeleteResponse response;

  EXPECT_THAT(stub_->Delete(&context, request, &response),
              HasCode(StatusCode::DEADLINE_EXCEEDED));
}

TEST_F(MalformedRequestsTest, CancelledCallStopsWaiting) {
  grpc::ClientContext context;
  Background pull([&] {
    v1::PullRequest request;
    request.set_wait_for_keys(true);
    request.add_entries()->set_key("absent");
    v1::PullResponse response;
    return stub_->Pull(&context, request, &response);
  });
  AwaitCallsWaiting(1);

  context.TryCancel();

  EXPECT_THAT(pull.Result(), HasCode(StatusCode::CANCELLED));
  AwaitCallsWaiting(0);
}

// Sends bytes that need not be a message.
class RawRequestsTest : public MalformedRequestsTest {
 protected:
  grpc::Status Send(const std::string& method, const std::string& bytes,
                    std::chrono::milliseconds timeout = kLong) {
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    grpc::Status result;
    Notification done;
    generic_.UnaryCall(&context, method, {}, &request, &response,
                       [&](grpc::Status status) {
                         result = std::move(status);
                         done.Notify();
                       });
    done.WaitForNotification();
    return result;
  }

 private:
  grpc::GenericStub generic_{NewChannel()};
};

TEST_F(RawRequestsTest, BytesThatAreNoMessage) {
  EXPECT_THAT(Send("/tensorkv.v1.TensorKV/Push", "\xff\xff\xff"),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("PushRequest")));
}

TEST_F(RawRequestsTest, MethodThatDoesNotExist) {
  EXPECT_THAT(Send("/tensorkv.v1.TensorKV/Destroy", ""),
              HasCode(StatusCode::UNIMPLEMENTED));
}

TEST_F(RawRequestsTest, ThousandRandomRequestsLeaveTheServerAsItWas) {
  RandomRequests requests(20240229);

  for (int i = 0; i < 1000; ++i) {
    const RandomRequest request = requests.Next();
    // Short, for some of the requests wait for what never comes.
    const grpc::Status status =
        Send(request.method, request.bytes, std::chrono::milliseconds(200));
    EXPECT_NE(status.error_code(), StatusCode::INTERNAL)
        << request.method << " " << request.description << ": "
        << status.error_message();
    EXPECT_NE(status.error_code(), StatusCode::UNKNOWN)
        << request.method << " " << request.description << ": "
        << status.error_message();
    EXPECT_NE(status.error_code(), StatusCode::UNAVAILABLE)
        << request.method << " " << request.description << ": "
        << status.error_message();
  }
}

}  // namespace
}  // namespace tensorkv::testing
