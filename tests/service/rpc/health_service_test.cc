#include "service/rpc/health_service.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::StatusIs;

HealthCheckRequest Of(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

class HealthServiceTest : public ::testing::Test {
 protected:
  HealthServiceTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    stub_ = Health::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  ~HealthServiceTest() override { server_->Shutdown(); }

  absl::StatusOr<int> Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckResponse response;
    const grpc::Status status = stub_->Check(&context, Of(service), &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response.status();
  }

  HealthService health_{{"tensorkv.v1.Data", "tensorkv.v1.Admin"}};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

TEST_F(HealthServiceTest, IsNotServingBeforeItIsTold) {
  EXPECT_THAT(Check(""), IsOkAndHolds(HealthCheckResponse::NOT_SERVING));
}

TEST_F(HealthServiceTest, CheckOfServerAndEachServiceIsServing) {
  health_.SetServing();

  EXPECT_THAT(Check(""), IsOkAndHolds(HealthCheckResponse::SERVING));
  EXPECT_THAT(Check("tensorkv.v1.Data"),
              IsOkAndHolds(HealthCheckResponse::SERVING));
  EXPECT_THAT(Check("tensorkv.v1.Admin"),
              IsOkAndHolds(HealthCheckResponse::SERVING));
}

TEST_F(HealthServiceTest, CheckOfUnknownServiceIsNotFound) {
  EXPECT_THAT(Check("x.Y"), StatusIs(absl::StatusCode::kNotFound,
                                     HasSubstr("service \"x.Y\"")));
}

TEST_F(HealthServiceTest, LongNameOfUnknownServiceIsCut) {
  const absl::Status status = Check(std::string(1 << 20, 'x')).status();

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_LT(status.message().size(), 1000u);
}

TEST_F(HealthServiceTest, IsNotServingForGoodAfterShutdown) {
  health_.SetServing();
  health_.Shutdown();
  health_.SetServing();

  EXPECT_THAT(Check(""), IsOkAndHolds(HealthCheckResponse::NOT_SERVING));
}

TEST_F(HealthServiceTest, ServesAgainAfterItDidNot) {
  health_.SetServing();
  health_.SetNotServing();
  EXPECT_THAT(Check(""), IsOkAndHolds(HealthCheckResponse::NOT_SERVING));

  health_.SetServing();

  EXPECT_THAT(Check(""), IsOkAndHolds(HealthCheckResponse::SERVING));
}

TEST_F(HealthServiceTest, HasNoWatches) {
  grpc::ClientContext context;
  HealthCheckResponse response;
  const auto watch = stub_->Watch(&context, Of(""));

  EXPECT_FALSE(watch->Read(&response));
  EXPECT_THAT(FromGrpcStatus(watch->Finish()),
              StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace tensorkv
