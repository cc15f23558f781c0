#include "service/metrics/http_endpoint.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "prometheus/metric_family.h"
#include "service/metrics/text_format.h"

namespace tensorkv {
namespace {

// A request of a browser with all its cookies fits.
constexpr size_t kMaxRequestBytes = 16 * 1024;
constexpr char kEndOfHeader[] = "\r\n\r\n";
// What a server under load may need to collect its metrics.
constexpr std::chrono::seconds kScrapeTimeout(30);
// How long nobody is accepted when the process has no descriptor left.
constexpr std::chrono::milliseconds kRest(50);

struct Response {
  int code = 200;
  std::string body;
  std::string more_headers;
};

absl::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

std::string Encode(const Response& response, bool has_body) {
  return absl::StrCat("HTTP/1.1 ", response.code, " ", ReasonOf(response.code),
                      "\r\nContent-Type: text/plain; ",
                      "version=0.0.4; charset=utf-8\r\nContent-Length: ",
                      response.body.size(), "\r\n", response.more_headers,
                      "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                      has_body ? response.body : "");
}

std::string Collect(
    const std::vector<const prometheus::Collectable*>& collectables) {
  std::vector<prometheus::MetricFamily> families;
  for (const prometheus::Collectable* collectable : collectables) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    families.insert(families.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  }
  return ToText(families);
}

// `good` is what a probe is told if there is nothing wrong.
Response Probed(const absl::Status& status, const char* good) {
  if (status.ok()) return {.body = good};
  return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
}

}  // namespace

struct HttpEndpoint::Peer {
  enum class State { kReceiving, kWaiting, kScraping, kSending };

  FileDescriptor fd;
  Clock::time_point deadline;
  State state = State::kReceiving;
  std::string request;
  bool is_head = false;
  std::string reply;
  size_t num_sent = 0;
};

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Create(
    HttpEndpointOptions options) {
  ASSIGN_OR_RETURN(ListeningSockets sockets,
                   ListeningSockets::Open(options.listen));
  return std::unique_ptr<HttpEndpoint>(
      new HttpEndpoint(std::move(sockets), std::move(options)));
}

HttpEndpoint::HttpEndpoint(ListeningSockets sockets,
                           HttpEndpointOptions options)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      scraper_(std::make_unique<Executor>()),
      thread_([this] { Run(); }) {}

HttpEndpoint::~HttpEndpoint() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_up_.Set();
  thread_.join();
}

void HttpEndpoint::Run() {
  while (true) {
    Wait();
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    EndScrape();
    Accept();
    const Clock::time_point now = Clock::now();
    peers_.remove_if(
        [&](Peer& peer) { return !Serve(peer) || peer.deadline <= now; });
    StartScrape();
  }
}

void HttpEndpoint::Wait() {
  std::vector<pollfd> polled = {{wake_up_.fd(), POLLIN, 0}};
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + (must_rest_ ? kRest : std::chrono::hours(1));
  if (!must_rest_) {
    for (const int fd : sockets_.fds()) polled.push_back({fd, POLLIN, 0});
  }
  for (const Peer& peer : peers_) {
    next = std::min(next, peer.deadline);
    if (peer.state == Peer::State::kReceiving) {
      polled.push_back({peer.fd.get(), POLLIN, 0});
    } else if (peer.state == Peer::State::kSending) {
      polled.push_back({peer.fd.get(), POLLOUT, 0});
    }
  }
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(next - now, Clock::duration::zero()));
  poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));
  wake_up_.Clear();
}

void HttpEndpoint::Accept() {
  must_rest_ = false;
  for (const int listener : sockets_.fds()) {
    while (true) {
      FileDescriptor fd(AcceptFrom(listener));
      if (fd.is_open()) {
        Add(std::move(fd));
        continue;
      }
      if (errno != EMFILE && errno != ENFILE) break;
      must_rest_ = peers_.empty();
      if (must_rest_) break;
      peers_.pop_front();
    }
  }
}

void HttpEndpoint::Add(FileDescriptor fd) {
  if (peers_.size() == kMaxPeers) peers_.pop_front();
  peers_.push_back(
      {.fd = std::move(fd),
       .deadline = Clock::now() + absl::ToChronoNanoseconds(options_.timeout)});
  // At once: the next one may take its place.
  if (!Serve(peers_.back())) peers_.pop_back();
}

bool HttpEndpoint::Serve(Peer& peer) {
  if (peer.state == Peer::State::kReceiving) {
    if (!Receive(peer)) return false;
    if (peer.state == Peer::State::kReceiving) return true;
  }
  if (peer.state != Peer::State::kSending) return true;
  while (peer.num_sent < peer.reply.size()) {
    const ssize_t size =
        send(peer.fd.get(), peer.reply.data() + peer.num_sent,
             peer.reply.size() - peer.num_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    peer.num_sent += static_cast<size_t>(size);
  }
  // Bytes that nobody has read would turn the end into a reset, and the reply
  // might be lost.
  char rest[4096];
  recv(peer.fd.get(), rest, sizeof(rest), 0);
  return false;
}

bool HttpEndpoint::Receive(Peer& peer) {
  char buffer[4096];
  while (peer.request.find(kEndOfHeader) == std::string::npos) {
    if (peer.request.size() > kMaxRequestBytes) return false;
    const ssize_t size = recv(peer.fd.get(), buffer, sizeof(buffer), 0);
    if (size == 0) return false;
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    peer.request.append(buffer, static_cast<size_t>(size));
  }
  Answer(peer);
  return true;
}

void HttpEndpoint::Answer(Peer& peer) {
  const absl::string_view line =
      absl::string_view(peer.request).substr(0, peer.request.find("\r\n"));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  Response response = {.code = 404, .body = "not found\n"};
  const absl::string_view path =
      words.size() == 3 ? words[1].substr(0, words[1].find('?')) : "";
  peer.is_head = words[0] == "HEAD";
  peer.deadline += absl::ToChronoNanoseconds(options_.timeout);
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    response = {.code = 400, .body = "expected an HTTP/1 request\n"};
  } else if (!peer.is_head && words[0] != "GET") {
    response = {.code = 405,
                .body = "expected GET or HEAD\n",
                .more_headers = "Allow: GET, HEAD\r\n"};
  } else if (path == "/healthz") {
    response = Probed(options_.health(), "ok\n");
  } else if (path == "/readyz") {
    response = Probed(options_.readiness(), "ready\n");
  } else if (path == "/metrics") {
    peer.state = Peer::State::kWaiting;
    peer.deadline += kScrapeTimeout;
    return;
  }
  peer.reply = Encode(response, !peer.is_head);
  peer.state = Peer::State::kSending;
}

void HttpEndpoint::StartScrape() {
  if (is_scraping_) return;
  for (Peer& peer : peers_) {
    if (peer.state != Peer::State::kWaiting) continue;
    peer.state = Peer::State::kScraping;
    is_scraping_ = true;
  }
  if (!is_scraping_) return;
  scraper_->Submit([this] {
    std::string page = Collect(options_.collectables);
    MutexLock lock(&mutex_);
    page_ = std::move(page);
    has_page_ = true;
    wake_up_.Set();
  });
}

void HttpEndpoint::EndScrape() {
  Response response;
  {
    MutexLock lock(&mutex_);
    if (!std::exchange(has_page_, false)) return;
    response.body = std::move(page_);
  }
  is_scraping_ = false;
  for (Peer& peer : peers_) {
    if (peer.state != Peer::State::kScraping) continue;
    peer.reply = Encode(response, !peer.is_head);
    peer.state = Peer::State::kSending;
  }
}

}  // namespace tensorkv
