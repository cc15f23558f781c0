#include "service/metrics/grpc_server_metrics.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"

namespace tensorkv {
namespace {

using testing::Exposition;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPull[] =
    "{grpc_method=\"Pull\",grpc_service=\"tensorkv.v1.Data\","
    "grpc_type=\"unary\"}";

class GrpcServerMetricsTest : public ::testing::Test {
 protected:
  prometheus::Registry registry_;
  GrpcServerMetrics metrics_{&registry_};
};

TEST_F(GrpcServerMetricsTest, MethodsThatNobodyCallsHaveOneLineEach) {
  const std::string text = Exposition(registry_);

  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), kNumMethods + 2);
}

TEST_F(GrpcServerMetricsTest, AllCodesExistFromTheFirstCallOn) {
  metrics_.Started(Method::kSetHyperparameters);

  EXPECT_THAT(Exposition(registry_),
              HasSubstr("grpc_server_handled_total{grpc_code=\"DataLoss\","
                        "grpc_method=\"SetHyperparameters\",grpc_service="
                        "\"tensorkv.v1.Namespaces\",grpc_type=\"unary\"} 0\n"));
}

TEST_F(GrpcServerMetricsTest, StartedCountsByMethod) {
  metrics_.Started(Method::kPull);
  metrics_.Started(Method::kPull);

  EXPECT_THAT(
      Exposition(registry_),
      HasSubstr(std::string("grpc_server_started_total") + kPull + " 2\n"));
}

TEST_F(GrpcServerMetricsTest, HandledCountsByMethodAndCode) {
  metrics_.Started(Method::kPull);
  metrics_.Handled(Method::kPull, {.code = absl::StatusCode::kNotFound});

  const std::string text = Exposition(registry_);
  EXPECT_THAT(text, HasSubstr("grpc_server_handled_total{grpc_code="
                              "\"NotFound\",grpc_method=\"Pull\",grpc_service="
                              "\"tensorkv.v1.Data\",grpc_type=\"unary\"} "
                              "1\n"));
  EXPECT_THAT(text, HasSubstr("grpc_server_handled_total{grpc_code=\"OK\","
                              "grpc_method=\"Pull\",grpc_service="
                              "\"tensorkv.v1.Data\",grpc_type=\"unary\"} "
                              "0\n"));
}

TEST_F(GrpcServerMetricsTest, HandlingTimeIsInSecondsWithFineBuckets) {
  metrics_.Started(Method::kPull);
  metrics_.Handled(Method::kPull, {.duration = absl::Microseconds(250)});

  const std::string text = Exposition(registry_);
  const std::string labels(kPull, sizeof(kPull) - 2);
  const std::string bucket = "grpc_server_handling_seconds_bucket" + labels;
  EXPECT_THAT(text, HasSubstr(bucket + ",le=\"0.0001\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(bucket + ",le=\"0.0003\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(std::string("grpc_server_handling_seconds_sum") +
                              kPull + " 0.00025\n"));
}

TEST_F(GrpcServerMetricsTest, SizesOfBothMessagesAreObserved) {
  metrics_.Started(Method::kPull);
  metrics_.Handled(Method::kPull, {.request_bytes = 10, .reply_bytes = 5000});

  const std::string text = Exposition(registry_);
  EXPECT_THAT(text, HasSubstr(std::string("grpc_server_received_bytes_sum") +
                              kPull + " 10\n"));
  EXPECT_THAT(text, HasSubstr(std::string("grpc_server_sent_bytes_sum") +
                              kPull + " 5000\n"));
}

TEST_F(GrpcServerMetricsTest, ServersOfOneProcessCountApart) {
  prometheus::Registry other_registry;
  GrpcServerMetrics other(&other_registry);

  metrics_.Started(Method::kPull);

  EXPECT_THAT(Exposition(other_registry),
              Not(HasSubstr("_total" + (kPull + std::string(" 1")))));
}

}  // namespace
}  // namespace tensorkv
