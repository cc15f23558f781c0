#include "service/metrics/http_endpoint.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
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
    endpoint_ = HttpEndpoint::Create(
                    {.listen = "127.0.0.1:0",
                     .collectables = {&first_, &second_},
                     .pages = {{"/page",
                                {.content_type = "text/html",
                                 .text = PageText,
                                 .is_for_own_hosts = true}}},
                     .health = [] { return HealthNow(); },
                     .readiness =
                         [] {
                           return is_ready_ ? absl::OkStatus()
                                            : absl::UnavailableError("not yet");
                         }})
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

  // Returns the field `a` of the query, or the error that another one names.
  static absl::StatusOr<std::string> PageText(const HttpQuery& query) {
    if (query.contains("wrong")) return absl::InvalidArgumentError("is wrong");
    if (query.contains("gone")) return absl::NotFoundError("nothing there");
    if (query.contains("ended")) return absl::UnavailableError("it ends");
    return query.at("a");
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
  EXPECT_EQ(Get("/readyz").body, "not yet\n");
  EXPECT_EQ(Get("/healthz").code, 200);
  is_ready_ = true;
}

TEST_F(HttpEndpointTest, OtherPathsAreNotFound) {
  EXPECT_EQ(Get("/").code, 404);
  EXPECT_EQ(Get("/../../etc/passwd").code, 404);
}

TEST_F(HttpEndpointTest, PagesTakeQueriesAndTellErrors) {
  const HttpResponse response = Get("/page?b&a=b?c%3D%00+d");

  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(response.body, std::string("b?c=\0 d", 7));
  EXPECT_THAT(response.headers, HasSubstr("Content-Type: text/html\r\n"));
  EXPECT_THAT(response.headers, HasSubstr("default-src 'none'"));
  EXPECT_EQ(Get("/page?wrong").code, 400);
  EXPECT_EQ(Get("/page?wrong").body, "is wrong\n");
  EXPECT_EQ(Get("/page?gone").code, 404);
  EXPECT_EQ(Get("/page?ended").code, 503);
}

// A site may have its name lead to the address of the server.
TEST_F(HttpEndpointTest, PagesAreNotForOtherSites) {
  const auto get = [](const char* path, absl::string_view host) {
    return HttpGet(endpoint_->bound_port(), path, "GET", host).code;
  };

  for (const char* host : {"localhost:9464", "127.0.0.1", "127.0.0.1:9464",
                           "[::1]:9464", "[::1]", "gpu-box:80"}) {
    EXPECT_EQ(get("/page?a=", host), 200) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:9464", "127.0.0.1.evil.example"}) {
    EXPECT_EQ(get("/page?a=", host), 403) << host;
    EXPECT_EQ(get("/metrics", host), 200) << host;
  }
}

TEST_F(HttpEndpointTest, HeadIsGetWithoutTheBody) {
  for (const char* path : {"/metrics", "/healthz", "/readyz", "/page?a=b"}) {
    const int port = endpoint_->bound_port();
    const HttpResponse response = HttpGet(port, path, "HEAD");

    EXPECT_EQ(response.code, 200);
    EXPECT_EQ(response.body, "");
    EXPECT_THAT(response.headers,
                HasSubstr(absl::StrCat("Content-Length: ",
                                       HttpGet(port, path).body.size())));
  }
}

TEST_F(HttpEndpointTest, QueriesAreIgnored) {
  EXPECT_EQ(Get("/healthz?verbose").code, 200);
}

TEST_F(HttpEndpointTest, WhatIsNoRequestIsRefused) {
  EXPECT_EQ(Get("/a b").code, 0);  // The connection ends.
  EXPECT_EQ(Get(std::string(64 << 10, 'a').c_str()).code, 414);
}

TEST_F(HttpEndpointTest, OtherMethodsAreRefused) {
  EXPECT_EQ(HttpGet(endpoint_->bound_port(), "/metrics", "DELETE").code, 405);
}

// A peer that has sent the beginning of a request.
FileDescriptor SlowPeer(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_EQ(send(fd.get(), "GET /he", 7, 0), 7);
  return fd;
}

TEST_F(HttpEndpointTest, SlowPeersStopNobody) {
  std::vector<FileDescriptor> peers;
  for (size_t i = 0; i < 3 * HttpEndpoint::kMaxPeers; ++i) {
    peers.push_back(SlowPeer(endpoint_->bound_port()));
  }

  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/metrics").code, 200);
}

TEST_F(HttpEndpointTest, PeerThatSendsNothingMoreIsCutOff) {
  const auto endpoint =
      HttpEndpoint::Create({.listen = "127.0.0.1:0", .idle_seconds = 1})
          .value();
  const FileDescriptor peer = SlowPeer(endpoint->bound_port());
  char byte = 0;

  EXPECT_LE(recv(peer.get(), &byte, 1, 0), 0);
}

TEST_F(HttpEndpointTest, PeerThatNeverComesToAnEndIsCutOff) {
  const auto endpoint =
      HttpEndpoint::Create(
          {.listen = "127.0.0.1:0", .max_duration = absl::Milliseconds(20)})
          .value();
  const FileDescriptor peer = SlowPeer(endpoint->bound_port());

  while (send(peer.get(), "a", 1, MSG_NOSIGNAL) == 1) {
    std::this_thread::yield();
  }
}

// Waits to be let go.
class HungCollectable final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    begun.Notify();
    may_end.WaitForNotification();
    return {};
  }

  mutable Notification begun;
  mutable Notification may_end;
};

TEST_F(HttpEndpointTest, MetricsThatHangDoNotStopTheProbes) {
  const HungCollectable hung;
  const auto endpoint =
      HttpEndpoint::Create({.listen = "127.0.0.1:0",
                            .collectables = {&hung},
                            .health = [] { return absl::OkStatus(); }})
          .value();
  std::thread scraper([&] {
    EXPECT_EQ(HttpGet(endpoint->bound_port(), "/metrics").code, 200);
  });
  hung.begun.WaitForNotification();

  EXPECT_EQ(HttpGet(endpoint->bound_port(), "/healthz").code, 200);

  hung.may_end.Notify();
  scraper.join();
}

TEST_F(HttpEndpointTest, PageThatIsNotMadeInTimeIsUnavailable) {
  const HungCollectable hung;
  const auto endpoint =
      HttpEndpoint::Create({.listen = "127.0.0.1:0",
                            .collectables = {&hung},
                            .max_duration = absl::Milliseconds(20)})
          .value();

  EXPECT_EQ(HttpGet(endpoint->bound_port(), "/metrics").code, 503);

  hung.may_end.Notify();
}

TEST_F(HttpEndpointTest, HistogramsThatHaveSeenNothingAreLeftOut) {
  prometheus::Registry registry;
  auto& family = prometheus::BuildHistogram()
                     .Name("test_seconds")
                     .Help("Of a test.")
                     .Register(registry);
  auto& histogram =
      family.Add({}, prometheus::Histogram::BucketBoundaries{0.5, 100});
  const auto endpoint = HttpEndpoint::Create({.listen = "127.0.0.1:0",
                                              .collectables = {&registry}})
                            .value();
  EXPECT_EQ(HttpGet(endpoint->bound_port(), "/metrics").body, "");

  histogram.Observe(0.75);

  const std::string body = HttpGet(endpoint->bound_port(), "/metrics").body;
  EXPECT_THAT(body, HasSubstr("test_seconds_bucket{le=\"0.5\"} 0\n"
                              "test_seconds_bucket{le=\"100\"} 1\n"
                              "test_seconds_bucket{le=\"+Inf\"} 1\n"));
}

TEST_F(HttpEndpointTest, PortInUseIsUnavailable) {
  const std::string taken =
      "127.0.0.1:" + std::to_string(endpoint_->bound_port());

  EXPECT_THAT(
      HttpEndpoint::Create({.listen = taken, .readiness = absl::OkStatus}),
      StatusIs(absl::StatusCode::kUnavailable, "Address already in use"));
}

}  // namespace
}  // namespace tensorkv
