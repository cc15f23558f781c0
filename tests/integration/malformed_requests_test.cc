// Raw requests to a live server: whatever comes, the answer is a status that
// says what was wrong, the values stay, and the server goes on.

#include <chrono>
#include <memory>
#include <string>
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
#include "tests/testing/test_device.h"

namespace tensorkv::testing {
namespace {

using ::grpc::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
  grpc::Status Call(grpc::Status (v1::Data::Stub::*method)(grpc::ClientContext*,
                                                           const Request&,
                                                           Response*),
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
    return Call(&v1::Data::Stub::Init, request, &response);
  }

  grpc::Status Pull(const std::string& key, v1::PullResponse* response) {
    v1::PullRequest request;
    request.add_entries()->set_key(key);
    return Call(&v1::Data::Stub::Pull, request, response);
  }

  const std::unique_ptr<Server> server_ =
      Server::Create({.listen = "127.0.0.1:0",
                      .device = TestDeviceChoice(),
                      .budget_bytes = 64 << 20,
                      .num_threads = 1,
                      .max_message_bytes = kMaxMessageBytes})
          .value();
  const std::unique_ptr<v1::Data::Stub> stub_ = v1::Data::NewStub(NewChannel());
};

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

  EXPECT_THAT(Call(&v1::Data::Stub::Pull, request, &response),
              HasCode(StatusCode::RESOURCE_EXHAUSTED, HasSubstr("1048576")));
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
  EXPECT_THAT(Send("/tensorkv.v1.Data/Push", "\xff\xff\xff"),
              HasCode(StatusCode::INVALID_ARGUMENT, HasSubstr("PushRequest")));
}

TEST_F(RawRequestsTest, MethodThatDoesNotExist) {
  EXPECT_THAT(Send("/tensorkv.v1.Data/Destroy", ""),
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
    // So a ticket is refused that nobody was given.
    if (request.method == "/tensorkv.v1.Data/PullStream") continue;
    EXPECT_NE(status.error_code(), StatusCode::UNAVAILABLE)
        << request.method << " " << request.description << ": "
        << status.error_message();
  }
}

}  // namespace
}  // namespace tensorkv::testing
