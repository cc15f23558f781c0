#include "client/cli/health_check.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

class FixedHealth final : public Health::Service {
 public:
  grpc::Status Check(grpc::ServerContext*, const HealthCheckRequest* request,
                     HealthCheckResponse* response) override {
    service = request->service();
    response->set_status(answer);
    return status;
  }

  HealthCheckResponse::ServingStatus answer = HealthCheckResponse::SERVING;
  grpc::Status status;
  std::string service = "not asked";
};

class HealthCheckTest : public ::testing::Test {
 protected:
  HealthCheckTest() {
    int port = 0;
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0",
                                    grpc::InsecureServerCredentials(), &port)
                  .RegisterService(&health_)
                  .BuildAndStart();
    target_ = absl::StrCat("127.0.0.1:", port);
  }

  FixedHealth health_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

TEST_F(HealthCheckTest, ServingServerIsOk) {
  EXPECT_THAT(CheckHealth(target_, {}, absl::Seconds(10)), IsOk());

  EXPECT_EQ(health_.service, "");
}

TEST_F(HealthCheckTest, OtherAnswersAreUnavailable) {
  health_.answer = HealthCheckResponse::NOT_SERVING;

  EXPECT_THAT(CheckHealth(target_, {}, absl::Seconds(10)),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("expected SERVING, got NOT_SERVING")));
}

TEST_F(HealthCheckTest, ErrorsOfTheCallAreReturned) {
  health_.status = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "none");

  EXPECT_THAT(CheckHealth(target_, {}, absl::Seconds(10)),
              StatusIs(absl::StatusCode::kUnimplemented, "none"));
}

TEST_F(HealthCheckTest, NoServerIsUnavailable) {
  server_->Shutdown();

  EXPECT_THAT(CheckHealth(target_, {}, absl::Seconds(10)),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv
