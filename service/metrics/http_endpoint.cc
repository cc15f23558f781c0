#include "service/metrics/http_endpoint.h"

#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace tensorkv {
namespace {

struct Response {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET with what a function makes.
class GetHandler final : public CivetHandler {
 public:
  explicit GetHandler(std::function<Response()> respond)
      : respond_(std::move(respond)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    const Response response = respond_();
    const std::string header = absl::StrCat(
        "HTTP/1.1 ", response.code, " ",
        mg_get_response_code_text(connection, response.code),
        "\r\nContent-Type: ", response.content_type,
        "\r\nContent-Length: ", response.body.size(),
        "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
    mg_write(connection, header.data(), header.size());
    mg_write(connection, response.body.data(), response.body.size());
    return true;
  }

 private:
  const std::function<Response()> respond_;
};

Response Metrics(
    const std::vector<const prometheus::Collectable*>& collectables) {
  std::vector<prometheus::MetricFamily> families;
  for (const prometheus::Collectable* collectable : collectables) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    families.insert(families.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(families)};
}

Response Health(const absl::Status& status) {
  if (status.ok()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
}

Response Readiness(bool is_ready) {
  if (is_ready) return {.body = "ready\n"};
  return {.code = 503, .body = "not ready\n"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Create(
    HttpEndpointOptions options) {
  // Four threads: a scraper that hangs does not stop the probes.
  const std::vector<std::string> settings = {
      "listening_ports",    options.listen, "num_threads", "4",
      "request_timeout_ms", "10000"};
  try {
    auto server = std::make_unique<CivetServer>(settings);
    return std::unique_ptr<HttpEndpoint>(
        new HttpEndpoint(std::move(server), std::move(options)));
  } catch (const CivetException&) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.listen, " for HTTP"));
  }
}

HttpEndpoint::HttpEndpoint(std::unique_ptr<CivetServer> server,
                           HttpEndpointOptions options)
    : server_(std::move(server)), bound_port_(server_->getListeningPorts()[0]) {
  const auto add = [this](const char* path, std::function<Response()> respond) {
    handlers_.push_back(std::make_unique<GetHandler>(std::move(respond)));
    server_->addHandler(path, *handlers_.back());
  };
  add("/metrics", [collectables = std::move(options.collectables)] {
    return Metrics(collectables);
  });
  add("/healthz",
      [health = std::move(options.health)] { return Health(health()); });
  add("/readyz", [is_ready = std::move(options.is_ready)] {
    return Readiness(is_ready());
  });
}

// Before the handlers go.
HttpEndpoint::~HttpEndpoint() { server_->close(); }

}  // namespace tensorkv
