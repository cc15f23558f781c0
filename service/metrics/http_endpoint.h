// The HTTP port for monitoring.

#ifndef TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
#define TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "prometheus/collectable.h"
#include "service/metrics/http_credentials.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace tensorkv {

// Collects the metrics of these, and returns them in Prometheus' text format.
// Leaves out histograms and summaries that have observed nothing, as 45 lines
// each would tell nothing.
std::string MetricsText(
    const std::vector<const prometheus::Collectable*>& collectables);

// The fields after the '?' of a request, decoded, by their names.
using HttpQuery = std::map<std::string, std::string, std::less<>>;

// HttpPage is what the port shows at a path.
struct HttpPage {
  std::string content_type;
  // Called on a thread of its own, one page at a time, and may block. Errors:
  // InvalidArgument (400), NotFound (404), others (503).
  std::function<absl::StatusOr<std::string>(const HttpQuery& query)> text;
  // True if requests whose Host is a name with a dot, not an address, are
  // refused. Otherwise pages of another site could read this one in the browser
  // of a user who reaches the port.
  bool is_for_own_hosts = false;
};

struct HttpEndpointOptions {
  // "address:port" or "[address]:port", numeric; port 0 takes a free one.
  std::string listen;
  // Collected at each request of /metrics; they outlive the endpoint.
  std::vector<const prometheus::Collectable*> collectables;
  // What other paths show.
  std::map<std::string, HttpPage, std::less<>> pages = {};
  // Answer /healthz and /readyz. Called from the endpoint's thread: must not
  // block.
  std::function<absl::Status()> health;
  std::function<absl::Status()> readiness;
  // Adds to what /readyz answers while the server takes calls; null: nothing.
  std::function<std::string()> remark = nullptr;
  // Encrypts connections, with TLS 1.2 or 1.3; null: they are in plain text.
  HttpCredentials::Texts tls = nullptr;
  // Refuses /metrics and pages to peers without a certificate. Needs `tls` with
  // authorities.
  bool pages_need_certificate = false;
  // Ends a connection on which nothing comes or goes for so many seconds.
  unsigned int idle_seconds = 5;
  // Ends any connection after that long: a server under load may need a while
  // to make a page.
  absl::Duration max_duration = absl::Seconds(40);
};

// Serves, to GET and HEAD requests, until it is destroyed:
//
//   /metrics   the metrics in Prometheus' text format
//   /healthz   200 while all is well, else 503 and what is wrong
//   /readyz    200 while the server takes calls, and the remark if there is
//              one, else 503 and why not
//   its pages
//
// Thread-safe. A thread of libmicrohttpd moves bytes and never waits for a peer
// or for a page, which another thread makes: however many slow peers there are,
// a probe that sends its request is answered at once. Peers beyond kMaxPeers
// take the place of the one that has been there longest.
class HttpEndpoint {
 public:
  static constexpr size_t kMaxPeers = 64;

  // Errors: Unavailable, with the system's reason (cannot listen there);
  // InvalidArgument (GnuTLS cannot use the texts of `tls`).
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Create(
      HttpEndpointOptions options);
  ~HttpEndpoint();

  // Returns the port that it listens on, also where `listen` has port 0.
  int bound_port() const { return sockets_.port(); }

 private:
  struct Callbacks;  // of libmicrohttpd
  struct Peer;
  struct Reply;

  HttpEndpoint(ListeningSockets sockets, HttpEndpointOptions options,
               std::optional<HttpCredentials> credentials);

  absl::Status Start();
  // Returns the peer that libmicrohttpd keeps with the connection.
  Peer* Add(MHD_Connection* connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const Peer& peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the reply to a request; nothing if its page is yet to be made: then
  // the connection is suspended, and nothing blocks.
  std::optional<Reply> Answer(Peer& peer, absl::string_view method,
                              absl::string_view path)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Suspends the connection until another thread has made the page. Returns a
  // reply if the connection is ending.
  std::optional<Reply> QueueForPage(const HttpPage& page, Peer& peer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns why the peer may not have the page; nothing if it may.
  std::optional<Reply> Refusal(const HttpPage& page, const Peer& peer) const;
  // Makes the page that the first of the waiting peers wants, for all who want
  // the same.
  void MakePage() ABSL_LOCKS_EXCLUDED(mutex_);
  // Resumes the connection of a peer that waits, with that reply.
  void Resume(Peer& peer, Reply reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the connection end soon: a peer that waits for a page gets 503.
  void End(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the connection `id`, if it is still there, after max_duration.
  void EndOverdue(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  const HttpEndpointOptions options_;
  const ListeningSockets sockets_;
  // Only libmicrohttpd's thread uses it.
  std::optional<HttpCredentials> credentials_;
  MHD_Daemon* daemon_ = nullptr;

  Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t num_accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  // The connection that has been there longest comes first.
  std::list<Peer> peers_ ABSL_GUARDED_BY(mutex_);

  SteadyAlarms alarms_;
  // Makes pages.
  std::unique_ptr<Executor> maker_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
