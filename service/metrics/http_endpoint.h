// The HTTP port for monitoring.

#ifndef TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
#define TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_

#include <chrono>
#include <functional>
#include <list>
#include <map>
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

// What the port shows at a path.
struct HttpPage {
  std::string content_type;
  // Called on a thread of its own, one page at a time, and may block. `query`
  // is what follows the '?', as it came. Errors: InvalidArgument (400),
  // NotFound (404), others (503).
  std::function<absl::StatusOr<std::string>(absl::string_view query)> text;
  // Refuses requests for a host of another site, whose pages could otherwise
  // read this one in the browser of a user who reaches the port: its name may
  // be an address, localhost, or one without a dot.
  bool is_for_own_hosts = false;
};

struct HttpEndpointOptions {
  // "address:port" or "[address]:port", numeric; port 0 takes a free one.
  std::string listen;
  // What /metrics shows; outlive the endpoint.
  std::vector<const prometheus::Collectable*> collectables;
  // What other paths show.
  std::map<std::string, HttpPage, std::less<>> pages = {};
  // What /healthz and /readyz answer. Called from the endpoint's thread: must
  // not block.
  std::function<absl::Status()> health;
  std::function<absl::Status()> readiness;
  // Adds to what /readyz answers while the server takes calls; null: nothing.
  std::function<std::string()> remark = nullptr;
  // How long a request may take to come, and then its reply to be taken.
  absl::Duration timeout = absl::Seconds(5);
};

// Serves, to GET and HEAD requests, until it is destroyed:
//
//   /metrics   the metrics in Prometheus' text format
//   /healthz   200 while all is well, else 503 and what is wrong
//   /readyz    200 while the server takes calls, and the remark if there is
//              one, else 503 and why not
//   its pages
//
// Thread-safe. One thread moves bytes and never waits for a peer or for a page,
// which another one makes: however many slow peers there are, a probe that
// sends its request is answered at once. Peers beyond kMaxPeers take the place
// of the one that has been there longest.
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
  // Has the peer wait until the page is made.
  void Await(const HttpPage& page, absl::string_view query, Peer& peer);
  // Has the page made that the first of the waiting peers wants, for all who
  // want the same.
  void StartPage();
  void EndPage();

  const HttpEndpointOptions options_;
  const ListeningSockets sockets_;
  WakeUp wake_up_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_page_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::string> page_ ABSL_GUARDED_BY(mutex_);

  // Only the thread uses these. Whoever has been there longest comes first.
  Peers peers_;
  // That is being made; null if none is.
  const HttpPage* making_ = nullptr;
  // Nobody can be accepted now.
  bool must_rest_ = false;

  // Makes pages.
  std::unique_ptr<Executor> maker_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HTTP_ENDPOINT_H_
