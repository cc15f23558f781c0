#include "service/metrics/http_endpoint.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace tensorkv {
namespace {

// A request of a browser with all its cookies fits, and the headers of a reply.
constexpr size_t kMaxConnectionBytes = 32 * 1024;
// Connections that have been told to end, and have not yet.
constexpr size_t kMaxEnding = 16;
constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kTlsVersions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

constexpr std::pair<const char*, const char*> kHeaders[] = {
    // Pages load from the server alone, and nobody embeds them.
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
     "'self'; img-src data:; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cache-Control", "no-store"},
    {"Connection", "close"},
};

bool IsEmpty(prometheus::MetricType type,
             const prometheus::ClientMetric& metric) {
  switch (type) {
    case prometheus::MetricType::Histogram:
      return metric.histogram.sample_count == 0;
    case prometheus::MetricType::Summary:
      return metric.summary.sample_count == 0;
    default:
      return false;
  }
}

HttpEndpointOptions WithMetrics(HttpEndpointOptions options) {
  const auto collect = [collectables = options.collectables](const HttpQuery&) {
    return MetricsText(collectables);
  };
  options.pages["/metrics"] = {
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .text = collect};
  return options;
}

unsigned int CodeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return MHD_HTTP_BAD_REQUEST;
  if (absl::IsNotFound(status)) return MHD_HTTP_NOT_FOUND;
  return MHD_HTTP_SERVICE_UNAVAILABLE;
}

HttpQuery QueryOf(MHD_Connection* connection) {
  HttpQuery query;
  const auto add = [](void* fields, MHD_ValueKind, const char* name,
                      size_t name_size, const char* value, size_t value_size) {
    static_cast<HttpQuery*>(fields)->insert_or_assign(
        std::string(name, name_size), std::string(value, value_size));
    return MHD_YES;
  };
  MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, add, &query);
  return query;
}

// Returns whether no site of the public net can have that name, which leads to
// this server: an address is of this server alone. `host` may have a port.
bool IsOwnHost(absl::string_view host) {
  const absl::string_view name =
      host.substr(0, host.find(':', host.rfind(']') + 1));
  return absl::StartsWith(name, "[") || !absl::StrContains(name, '.') ||
         absl::c_all_of(name, [](char each) {
           return each == '.' || absl::ascii_isdigit(each);
         });
}

gnutls_session_t SessionOf(MHD_Connection* connection) {
  return static_cast<gnutls_session_t>(
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
          ->tls_session);
}

}  // namespace

std::string MetricsText(
    const std::vector<const prometheus::Collectable*>& collectables) {
  std::vector<prometheus::MetricFamily> families;
  for (const prometheus::Collectable* collectable : collectables) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    for (prometheus::MetricFamily& family : more) {
      std::erase_if(family.metric,
                    [type = family.type](const prometheus::ClientMetric& each) {
                      return IsEmpty(type, each);
                    });
      if (!family.metric.empty()) families.push_back(std::move(family));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

// Tells peers something; those that want the same page share one.
struct HttpEndpoint::Reply {
  Reply(unsigned int code, const std::string& body,
        const std::string& content_type = kPlainText)
      : code(code),
        response(MHD_create_response_from_buffer(body.size(),
                                                 const_cast<char*>(body.data()),
                                                 MHD_RESPMEM_MUST_COPY),
                 MHD_destroy_response) {
    Add("Content-Type", content_type.c_str());
    for (const auto& [name, value] : kHeaders) Add(name, value);
  }

  // `good` is what a probe is told if there is nothing wrong.
  static Reply ToProbe(const absl::Status& status, const std::string& good) {
    return status.ok() ? Reply(MHD_HTTP_OK, good) : OfError(status);
  }
  static Reply OfError(const absl::Status& status) {
    return Reply(CodeOf(status), absl::StrCat(status.message(), "\n"));
  }

  void Add(const char* name, const char* value) {
    MHD_add_response_header(response.get(), name, value);
  }

  unsigned int code;
  std::shared_ptr<MHD_Response> response;
};

struct HttpEndpoint::Peer {
  enum class State { kOpen, kWaiting, kMaking, kEnding };

  // libmicrohttpd does nothing for it meanwhile.
  bool is_suspended() const {
    return state == State::kWaiting || state == State::kMaking;
  }

  uint64_t id = 0;
  MHD_Connection* connection = nullptr;
  int fd = -1;
  std::shared_ptr<void> credentials;
  Alarms::Id deadline = 0;
  State state = State::kOpen;
  // Is what it waits for, while it does.
  const HttpPage* page = nullptr;
  HttpQuery query;
  // Is there once it has waited.
  std::optional<Reply> reply;
};

struct HttpEndpoint::Callbacks {
  static void OnConnection(void* self, MHD_Connection* connection,
                           void** context,
                           MHD_ConnectionNotificationCode code) {
    HttpEndpoint& endpoint = *static_cast<HttpEndpoint*>(self);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      *context = endpoint.Add(connection);
    } else {
      endpoint.Remove(*static_cast<Peer*>(*context));
    }
  }

  // Is called again after a connection was resumed.
  static MHD_Result OnRequest(void* self, MHD_Connection* connection,
                              const char* path, const char* method, const char*,
                              const char*, size_t*, void**) {
    const MHD_ConnectionInfo* const info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const std::optional<Reply> reply = static_cast<HttpEndpoint*>(self)->Answer(
        *static_cast<Peer*>(info->socket_context), method, path);
    if (!reply) return MHD_YES;
    return MHD_queue_response(connection, reply->code, reply->response.get());
  }
};

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Create(
    HttpEndpointOptions options) {
  ASSIGN_OR_RETURN(ListeningSockets sockets,
                   ListeningSockets::Open(options.listen));
  std::optional<HttpCredentials> credentials;
  if (options.tls) {
    ASSIGN_OR_RETURN(credentials, HttpCredentials::Create(options.tls));
  }
  std::unique_ptr<HttpEndpoint> endpoint(new HttpEndpoint(
      std::move(sockets), std::move(options), std::move(credentials)));
  RETURN_IF_ERROR(endpoint->Start());
  return endpoint;
}

HttpEndpoint::HttpEndpoint(ListeningSockets sockets,
                           HttpEndpointOptions options,
                           std::optional<HttpCredentials> credentials)
    : options_(WithMetrics(std::move(options))),
      sockets_(std::move(sockets)),
      credentials_(std::move(credentials)),
      maker_(std::make_unique<Executor>()) {}

absl::Status HttpEndpoint::Start() {
  unsigned int flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  std::shared_ptr<const TlsTexts> texts;
  std::vector<MHD_OptionItem> tls;
  if (options_.tls) {
    flags |= MHD_USE_TLS;
    // It wants some, though each session gets its own.
    texts = options_.tls();
    const auto add = [&tls](MHD_OPTION option, const char* text) {
      tls.push_back({option, 0, const_cast<char*>(text)});
    };
    add(MHD_OPTION_HTTPS_MEM_CERT, texts->certificate.c_str());
    add(MHD_OPTION_HTTPS_MEM_KEY, texts->key.c_str());
    add(MHD_OPTION_HTTPS_PRIORITIES, kTlsVersions);
  }
  tls.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ =
      MHD_start_daemon(flags, 0, nullptr, nullptr, &Callbacks::OnRequest, this,
                       MHD_OPTION_LISTEN_SOCKET, sockets_.fds().front(),
                       MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::OnConnection,
                       this, MHD_OPTION_CONNECTION_LIMIT,
                       static_cast<unsigned int>(kMaxPeers + kMaxEnding),
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMaxConnectionBytes,
                       MHD_OPTION_CONNECTION_TIMEOUT, options_.idle_seconds,
                       MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
                       tls.data(), MHD_OPTION_END);
  if (daemon_ != nullptr) return absl::OkStatus();
  return absl::UnavailableError("libmicrohttpd cannot start");
}

HttpEndpoint::~HttpEndpoint() {
  if (daemon_ == nullptr) return;
  // The sockets stay open: ListeningSockets closes them.
  MHD_quiesce_daemon(daemon_);
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    for (Peer& peer : peers_) End(peer);
  }
  maker_.reset();
  MHD_stop_daemon(daemon_);
}

HttpEndpoint::Peer* HttpEndpoint::Add(MHD_Connection* connection) {
  const int fd =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
          ->connect_fd;
  const auto is_there = [](const Peer& peer) {
    return peer.state != Peer::State::kEnding;
  };
  MutexLock lock(&mutex_);
  if (absl::c_count_if(peers_, is_there) == kMaxPeers) {
    End(*absl::c_find_if(peers_, is_there));
  }
  Peer& peer = peers_.emplace_back();
  peer.id = ++num_accepted_;
  peer.connection = connection;
  peer.fd = fd;
  if (credentials_) {
    peer.credentials = credentials_->Install(SessionOf(connection));
  }
  peer.deadline = alarms_.Schedule(alarms_.Now() + options_.max_duration,
                                   [this, id = peer.id] { EndOverdue(id); });
  return &peer;
}

void HttpEndpoint::Remove(const Peer& peer) {
  MutexLock lock(&mutex_);
  alarms_.Cancel(peer.deadline);
  peers_.remove_if([&peer](const Peer& each) { return &each == &peer; });
}

std::optional<HttpEndpoint::Reply> HttpEndpoint::Answer(
    Peer& peer, absl::string_view method, absl::string_view path) {
  {
    MutexLock lock(&mutex_);
    if (peer.reply) return peer.reply;
  }
  if (method != "GET" && method != "HEAD") {
    Reply reply(MHD_HTTP_METHOD_NOT_ALLOWED, "expected GET or HEAD\n");
    reply.Add("Allow", "GET, HEAD");
    return reply;
  }
  if (path == "/healthz") return Reply::ToProbe(options_.health(), "ok\n");
  if (path == "/readyz") {
    return Reply::ToProbe(
        options_.readiness(),
        absl::StrCat("ready\n", options_.remark ? options_.remark() : ""));
  }
  const auto page = options_.pages.find(path);
  if (page == options_.pages.end()) {
    return Reply(MHD_HTTP_NOT_FOUND, "not found\n");
  }
  if (std::optional<Reply> refusal = Refusal(page->second, peer)) {
    return refusal;
  }
  return QueueForPage(page->second, peer);
}

std::optional<HttpEndpoint::Reply> HttpEndpoint::Refusal(
    const HttpPage& page, const Peer& peer) const {
  const char* const host =
      MHD_lookup_connection_value(peer.connection, MHD_HEADER_KIND, "Host");
  if (page.is_for_own_hosts && host != nullptr && !IsOwnHost(host)) {
    return Reply(MHD_HTTP_FORBIDDEN,
                 "expected an address, localhost or a name without a dot as "
                 "the host\n");
  }
  if (options_.pages_need_certificate &&
      !HasCertificate(SessionOf(peer.connection))) {
    return Reply(MHD_HTTP_FORBIDDEN, "expected a certificate of the client\n");
  }
  return std::nullopt;
}

std::optional<HttpEndpoint::Reply> HttpEndpoint::QueueForPage(
    const HttpPage& page, Peer& peer) {
  HttpQuery query = QueryOf(peer.connection);
  MutexLock lock(&mutex_);
  if (is_stopping_ || peer.state == Peer::State::kEnding) {
    return Reply(MHD_HTTP_SERVICE_UNAVAILABLE, "the connection ends\n");
  }
  peer.page = &page;
  peer.query = std::move(query);
  peer.state = Peer::State::kWaiting;
  MHD_suspend_connection(peer.connection);
  maker_->Submit([this] { MakePage(); });
  return std::nullopt;
}

void HttpEndpoint::MakePage() {
  const HttpPage* page = nullptr;
  HttpQuery query;
  {
    MutexLock lock(&mutex_);
    for (Peer& peer : peers_) {
      if (peer.state != Peer::State::kWaiting) continue;
      if (page == nullptr) {
        page = peer.page;
        query = peer.query;
      }
      if (peer.page == page && peer.query == query) {
        peer.state = Peer::State::kMaking;
      }
    }
  }
  if (page == nullptr) return;  // It was made for another one too.
  const absl::StatusOr<std::string> text = page->text(query);
  const Reply reply = text.ok() ? Reply(MHD_HTTP_OK, *text, page->content_type)
                                : Reply::OfError(text.status());
  MutexLock lock(&mutex_);
  for (Peer& peer : peers_) {
    if (peer.state != Peer::State::kMaking) continue;
    Resume(peer, reply);
    peer.state = Peer::State::kOpen;
  }
}

void HttpEndpoint::Resume(Peer& peer, Reply reply) {
  peer.reply = std::move(reply);
  MHD_resume_connection(peer.connection);
}

void HttpEndpoint::End(Peer& peer) {
  if (peer.is_suspended()) {
    Resume(peer, Reply(MHD_HTTP_SERVICE_UNAVAILABLE,
                       "the page was not made in time\n"));
  } else {
    shutdown(peer.fd, SHUT_RDWR);
  }
  peer.state = Peer::State::kEnding;
}

void HttpEndpoint::EndOverdue(uint64_t id) {
  MutexLock lock(&mutex_);
  const auto peer =
      absl::c_find_if(peers_, [id](const Peer& each) { return each.id == id; });
  if (peer != peers_.end()) End(*peer);
}

}  // namespace tensorkv
