#include "service/metrics/http_endpoint.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
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
// What a server under load may need to make a page.
constexpr std::chrono::seconds kPageTimeout(30);
// What is accepted before others get their turn. A new peer keeps its place for
// some turns, until its request is there.
constexpr int kMaxAcceptsPerTurn = HttpEndpoint::kMaxPeers / 4;
// How long nobody is accepted when the process has no descriptor left.
constexpr std::chrono::milliseconds kRest(50);

// What the pages of the server load is of the server, and nobody embeds them.
constexpr char kBrowserHeaders[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src "
    "'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action "
    "'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

struct Response {
  int code = 200;
  std::string body;
  std::string more_headers;
  std::string content_type = "text/plain; charset=utf-8";
};

absl::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
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
                      "\r\nContent-Type: ", response.content_type,
                      "\r\nContent-Length: ", response.body.size(), "\r\n",
                      response.more_headers, kBrowserHeaders,
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

HttpEndpointOptions WithMetrics(HttpEndpointOptions options) {
  const auto collect = [collectables = options.collectables](
                           absl::string_view) { return Collect(collectables); };
  options.pages["/metrics"] = {
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .text = collect};
  return options;
}

// What a request is told that is none for a page, by the words of its line.
std::optional<Response> Refused(const std::vector<absl::string_view>& words) {
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Response{.code = 400, .body = "expected an HTTP/1 request\n"};
  }
  if (words[0] == "GET" || words[0] == "HEAD") return std::nullopt;
  return Response{.code = 405,
                  .body = "expected GET or HEAD\n",
                  .more_headers = "Allow: GET, HEAD\r\n"};
}

// `good` is what a probe is told if there is nothing wrong.
Response Probed(const absl::Status& status, std::string good) {
  if (status.ok()) return {.body = std::move(good)};
  return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
}

Response PageResponse(const HttpPage& page, absl::StatusOr<std::string> text) {
  if (text.ok()) {
    return {.body = *std::move(text), .content_type = page.content_type};
  }
  Response response = {.code = 503,
                       .body = absl::StrCat(text.status().message(), "\n")};
  if (absl::IsInvalidArgument(text.status())) response.code = 400;
  if (absl::IsNotFound(text.status())) response.code = 404;
  return response;
}

// The value of the header `Host`, without the port; empty if there is none.
absl::string_view HostHeaderOf(absl::string_view request) {
  constexpr absl::string_view kHost = "host:";
  for (absl::string_view line : absl::StrSplit(request, "\r\n")) {
    if (!absl::StartsWithIgnoreCase(line, kHost)) continue;
    line = absl::StripAsciiWhitespace(line.substr(kHost.size()));
    return line.substr(0, line.find(':', line.rfind(']') + 1));
  }
  return "";
}

// Whether no site of the public net can have that name, which leads to this
// server: an address is of this server alone.
bool IsOwnHost(absl::string_view host) {
  return absl::StartsWith(host, "[") || !absl::StrContains(host, '.') ||
         absl::c_all_of(host, [](char each) {
           return each == '.' || absl::ascii_isdigit(each);
         });
}

}  // namespace

struct HttpEndpoint::Peer {
  enum class State { kReceiving, kWaiting, kMaking, kSending };

  FileDescriptor fd;
  Clock::time_point deadline;
  State state = State::kReceiving;
  std::string request;
  bool is_head = false;
  // While it waits for one.
  const HttpPage* page = nullptr;
  std::string query;
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
    : options_(WithMetrics(std::move(options))),
      sockets_(std::move(sockets)),
      maker_(std::make_unique<Executor>()),
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
    EndPage();
    Accept();
    const Clock::time_point now = Clock::now();
    peers_.remove_if(
        [&](Peer& peer) { return !Serve(peer) || peer.deadline <= now; });
    StartPage();
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
    for (int i = 0; i < kMaxAcceptsPerTurn; ++i) {
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
  const std::pair<absl::string_view, absl::string_view> target = absl::StrSplit(
      words.size() == 3 ? words[1] : "", absl::MaxSplits('?', 1));
  const auto page = options_.pages.find(target.first);
  peer.is_head = words[0] == "HEAD";
  peer.deadline += absl::ToChronoNanoseconds(options_.timeout);
  if (std::optional<Response> refused = Refused(words)) {
    response = *std::move(refused);
  } else if (target.first == "/healthz") {
    response = Probed(options_.health(), "ok\n");
  } else if (target.first == "/readyz") {
    response = Probed(
        options_.readiness(),
        absl::StrCat("ready\n", options_.remark ? options_.remark() : ""));
  } else if (page != options_.pages.end()) {
    if (!page->second.is_for_own_hosts ||
        IsOwnHost(HostHeaderOf(peer.request))) {
      return Await(page->second, target.second, peer);
    }
    response = {.code = 403,
                .body =
                    "expected an address, localhost or a name without a "
                    "dot as the host\n"};
  }
  peer.reply = Encode(response, !peer.is_head);
  peer.state = Peer::State::kSending;
}

void HttpEndpoint::Await(const HttpPage& page, absl::string_view query,
                         Peer& peer) {
  peer.page = &page;
  peer.query = std::string(query);
  peer.state = Peer::State::kWaiting;
  peer.deadline += kPageTimeout;
}

void HttpEndpoint::StartPage() {
  if (making_ != nullptr) return;
  std::string query;
  for (Peer& peer : peers_) {
    if (peer.state != Peer::State::kWaiting) continue;
    if (making_ == nullptr) {
      making_ = peer.page;
      query = peer.query;
    } else if (peer.page != making_ || peer.query != query) {
      continue;
    }
    peer.state = Peer::State::kMaking;
  }
  if (making_ == nullptr) return;
  maker_->Submit([this, page = making_, query = std::move(query)] {
    absl::StatusOr<std::string> text = page->text(query);
    MutexLock lock(&mutex_);
    page_ = std::move(text);
    has_page_ = true;
    wake_up_.Set();
  });
}

void HttpEndpoint::EndPage() {
  absl::StatusOr<std::string> text;
  {
    MutexLock lock(&mutex_);
    if (!std::exchange(has_page_, false)) return;
    text = std::move(page_);
  }
  const Response response = PageResponse(*making_, std::move(text));
  making_ = nullptr;
  for (Peer& peer : peers_) {
    if (peer.state != Peer::State::kMaking) continue;
    peer.reply = Encode(response, !peer.is_head);
    peer.state = Peer::State::kSending;
  }
}

}  // namespace tensorkv
