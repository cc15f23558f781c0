// The HTTP port for monitoring.

#ifndef TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
#define TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CivetServer.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace tensorkv {

struct HttpEndpointOptions {
  // "address:port" or "[address]:port", numeric; port 0 takes a free one.
  std::string listen;
  // What /metrics shows; outlive the endpoint.
  std::vector<const prometheus::Collectable*> collectables;
  // What /healthz and /readyz answer. Called from threads of the endpoint.
  std::function<absl::Status()> health;
  std::function<bool()> is_ready;
};

// Serves, to GET requests, until it is destroyed:
//
//   /metrics   the metrics in Prometheus' text format
//   /healthz   200 while all is well, else 503 and what only another start can
//              mend
//   /readyz    200 while the server takes calls, else 503
//
// Thread-safe; has threads of its own.
class HttpEndpoint {
 public:
  // Errors: Unavailable (cannot listen there).
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Create(
      HttpEndpointOptions options);
  ~HttpEndpoint();

  int bound_port() const { return bound_port_; }

 private:
  HttpEndpoint(std::unique_ptr<CivetServer> server,
               HttpEndpointOptions options);

  std::vector<std::unique_ptr<CivetHandler>> handlers_;
  const std::unique_ptr<CivetServer> server_;
  const int bound_port_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
