// The HTTP port for monitoring.

#ifndef TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
#define TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "base/file_descriptor.h"
#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "base/wake_up.h"
#include "prometheus/collectable.h"

namespace tensorkv {

struct HttpEndpointOptions {
  // "address:port" or "[address]:port", numeric; port 0 takes a free one.
  std::string listen;
  // What /metrics shows; outlive the endpoint.
  std::vector<const prometheus::Collectable*> collectables;
  // What /healthz and /readyz answer. Called from the endpoint's thread: must
  // not block.
  std::function<absl::Status()> health;
  std::function<absl::Status()> readiness;
  // How long a request may take to come, and then its reply to be taken.
  absl::Duration timeout = absl::Seconds(5);
};

// Serves, to GET and HEAD requests, until it is destroyed:
//
//   /metrics   the metrics in Prometheus' text format
//   /healthz   200 while all is well, else 503 and what is wrong
//   /readyz    200 while the server takes calls, else 503 and why not
//
// Thread-safe. One thread moves bytes and never waits for a peer or for the
// metrics, which another one collects: however many slow peers there are, a
// probe that sends its request is answered at once. Peers beyond kMaxPeers
// take the place of the one that has been there longest.
class HttpEndpoint {
 public:
  static constexpr size_t kMaxPeers = 64;

  // Errors: Unavailable, with the system's reason (cannot listen there).
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Create(
      HttpEndpointOptions options);
  ~HttpEndpoint();

  int bound_port() const { return sockets_.port(); }

 private:
  struct Peer;
  using Peers = std::list<Peer>;
  using Clock = std::chrono::steady_clock;

  HttpEndpoint(ListeningSockets sockets, HttpEndpointOptions options);

  void Run();
  // Waits until there is something to do.
  void Wait();
  void Accept();
  void Add(FileDescriptor fd);
  // Moves what can be moved now. Returns false when nothing is left to do for
  // the peer.
  bool Serve(Peer& peer);
  // Whether the peer is there and its request is complete or may become so.
  bool Receive(Peer& peer);
  void Answer(Peer& peer);
  // Has the metrics collected for all peers that wait for them.
  void StartScrape();
  void EndScrape();

  const HttpEndpointOptions options_;
  const ListeningSockets sockets_;
  WakeUp wake_up_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_page_ ABSL_GUARDED_BY(mutex_) = false;
  std::string page_ ABSL_GUARDED_BY(mutex_);

  // Only the thread uses these. Whoever has been there longest comes first.
  Peers peers_;
  bool is_scraping_ = false;
  // Nobody can be accepted now.
  bool must_rest_ = false;

  // Collects metrics.
  std::unique_ptr<Executor> scraper_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
