#include "bench/data_path/sockets/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr absl::string_view kLoopbackPrefix = "127.0.0.1:";
constexpr int kBacklog = 128;
constexpr time_t kSilenceSeconds = 30;

// An address as the system calls take it.
struct SystemAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

absl::Status SystemError(absl::string_view what, absl::string_view address) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", address, ": ", strerror(errno)));
}

absl::StatusOr<SystemAddress> UnixAddress(absl::string_view path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unix:", path, ": expected a path of 1 to ",
                     sizeof(address.sun_path) - 1, " bytes"));
  }
  path.copy(address.sun_path, path.size());
  SystemAddress result = {.size = sizeof(address)};
  std::memcpy(&result.storage, &address, sizeof(address));
  return result;
}

absl::StatusOr<SystemAddress> LoopbackAddress(absl::string_view port_text) {
  int port = 0;
  if (!absl::SimpleAtoi(port_text, &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a port, got \"", port_text, "\""));
  }
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_port = htons(static_cast<uint16_t>(port)),
                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
  SystemAddress result = {.size = sizeof(address)};
  std::memcpy(&result.storage, &address, sizeof(address));
  return result;
}

absl::StatusOr<SystemAddress> Parse(absl::string_view address) {
  if (absl::ConsumePrefix(&address, kUnixPrefix)) return UnixAddress(address);
  if (absl::ConsumePrefix(&address, kLoopbackPrefix)) {
    return LoopbackAddress(address);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected 127.0.0.1:PORT or unix:/path, got \"", address, "\""));
}

absl::StatusOr<Socket> Open(const SystemAddress& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC,
                        /*protocol=*/0);
  if (fd < 0) return SystemError("cannot open", "a socket");
  return Socket(fd);
}

void SetConnectionOptions(const Socket& socket) {
  const int on = 1;
  // Fails, without harm, on a Unix socket.
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const timeval silence = {.tv_sec = kSilenceSeconds};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Socket> ConnectTo(const std::string& address) {
  ASSIGN_OR_RETURN(const SystemAddress peer, Parse(address));
  ASSIGN_OR_RETURN(Socket socket, Open(peer));
  if (connect(socket.fd(), peer.get(), peer.size) != 0) {
    return SystemError("cannot connect to", address);
  }
  SetConnectionOptions(socket);
  return socket;
}

absl::StatusOr<Socket> ListenOn(const std::string& address) {
  ASSIGN_OR_RETURN(const SystemAddress own, Parse(address));
  ASSIGN_OR_RETURN(Socket socket, Open(own));
  if (bind(socket.fd(), own.get(), own.size) != 0 ||
      listen(socket.fd(), kBacklog) != 0) {
    return SystemError("cannot listen on", address);
  }
  return socket;
}

absl::StatusOr<Socket> AcceptFrom(const Socket& listener) {
  const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return SystemError("cannot accept", "a connection");
  Socket socket(fd);
  SetConnectionOptions(socket);
  return socket;
}

absl::StatusOr<std::string> AddressOf(const Socket& listener) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(listener.fd(), address, &size) != 0) {
    return SystemError("cannot name", "a socket");
  }
  if (storage.ss_family == AF_UNIX) {
    return absl::StrCat(kUnixPrefix,
                        reinterpret_cast<sockaddr_un*>(&storage)->sun_path);
  }
  return absl::StrCat(
      kLoopbackPrefix,
      ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port));
}

absl::StatusOr<std::string> FreeLoopbackAddress() {
  ASSIGN_OR_RETURN(const Socket socket, ListenOn("127.0.0.1:0"));
  return AddressOf(socket);
}

}  // namespace tensorkv::bench
