#include "service/metrics/http_endpoint.h"

#include <atomic>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "tests/service/http_get.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpResponse;
using testing::StatusIs;

constexpr auto kMerge = prometheus::Registry::InsertBehavior::Merge;

// One endpoint for all tests: civetweb takes up to two seconds to stop.
class HttpEndpointTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prometheus::BuildCounter()
        .Name("test_total")
        .Help("Of a test.")
        .Register(first_)
        .Add({})
        .Increment(3);
    prometheus::BuildCounter()
        .Name("other_total")
        .Help("Of a test.")
        .Register(second_)
        .Add({});
    endpoint_ =
        HttpEndpoint::Create({.listen = "127.0.0.1:0",
                              .collectables = {&first_, &second_},
                              .health = [] { return HealthNow(); },
                              .is_ready = [] { return is_ready_.load(); }})
            .value();
  }
  static void TearDownTestSuite() { endpoint_.reset(); }

  static HttpResponse Get(const char* path) {
    return HttpGet(endpoint_->bound_port(), path);
  }

  static inline prometheus::Registry first_{kMerge};
  static inline prometheus::Registry second_{kMerge};
  static absl::Status HealthNow() {
    return is_well_ ? absl::OkStatus() : absl::UnavailableError("no device");
  }

  static inline std::atomic<bool> is_well_ = true;
  static inline std::atomic<bool> is_ready_ = true;
  static inline std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, MetricsShowsEveryCollectable) {
  const HttpResponse response = Get("/metrics");

  EXPECT_EQ(response.code, 200);
  EXPECT_THAT(response.headers,
              HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(response.body, HasSubstr("test_total 3\n"));
  EXPECT_THAT(response.body, HasSubstr("other_total 0\n"));
}

TEST_F(HttpEndpointTest, HealthzTellsWhatIsWrong) {
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/healthz").body, "ok\n");

  is_well_ = false;

  EXPECT_EQ(Get("/healthz").code, 503);
  EXPECT_EQ(Get("/healthz").body, "no device\n");
  is_well_ = true;
}

TEST_F(HttpEndpointTest, ReadyzFollowsTheServer) {
  EXPECT_EQ(Get("/readyz").code, 200);

  is_ready_ = false;

  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "not ready\n");
  EXPECT_EQ(Get("/healthz").code, 200);
  is_ready_ = true;
}

TEST_F(HttpEndpointTest, OtherPathsAreNotFound) {
  EXPECT_EQ(Get("/").code, 404);
  EXPECT_EQ(Get("/../../etc/passwd").code, 404);
}

TEST_F(HttpEndpointTest, OtherMethodsAreRefused) {
  EXPECT_EQ(HttpGet(endpoint_->bound_port(), "/metrics", "DELETE").code, 405);
}

TEST_F(HttpEndpointTest, PortInUseIsUnavailable) {
  const std::string taken =
      "127.0.0.1:" + std::to_string(endpoint_->bound_port());

  EXPECT_THAT(
      HttpEndpoint::Create({.listen = taken, .is_ready = [] { return true; }}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(taken)));
}

}  // namespace
}  // namespace tensorkv
