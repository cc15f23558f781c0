#include "bench/data_path/sockets/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
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
// What one system call takes at most (IOV_MAX is 1024).
constexpr size_t kMaxVectors = 512;

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

absl::StatusOr<FileDescriptor> Open(const SystemAddress& address) {
  FileDescriptor socket_fd(socket(address.storage.ss_family,
                                  SOCK_STREAM | SOCK_CLOEXEC, /*protocol=*/0));
  if (!socket_fd.is_open()) return SystemError("cannot open", "a socket");
  return socket_fd;
}

void SwitchDelayOff(int connection) {
  const int on = 1;
  // Fails, without harm, on a Unix socket.
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Calls `move`, which is sendmsg or recvmsg, until all bytes have moved.
template <typename Move>
absl::Status MoveAll(const char* what, std::vector<iovec> vectors, Move move) {
  size_t next = 0;
  while (true) {
    while (next < vectors.size() && vectors[next].iov_len == 0) ++next;
    if (next == vectors.size()) return absl::OkStatus();
    msghdr message = {
        .msg_iov = &vectors[next],
        .msg_iovlen = std::min(vectors.size() - next, kMaxVectors)};
    ssize_t moved = move(&message);
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) return absl::UnavailableError("the peer closed");
    if (moved < 0) return SystemError(what, "on a connection");
    for (size_t i = next; moved > 0; ++i) {
      const size_t passed = std::min<size_t>(moved, vectors[i].iov_len);
      vectors[i].iov_base = static_cast<char*>(vectors[i].iov_base) + passed;
      vectors[i].iov_len -= passed;
      moved -= static_cast<ssize_t>(passed);
    }
  }
}

}  // namespace

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address) {
  ASSIGN_OR_RETURN(const SystemAddress peer, Parse(address));
  ASSIGN_OR_RETURN(FileDescriptor connection, Open(peer));
  if (connect(connection.get(), peer.get(), peer.size) != 0) {
    return SystemError("cannot connect to", address);
  }
  SwitchDelayOff(connection.get());
  const timeval silence = {.tv_sec = kSilenceSeconds};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &silence,
             sizeof(silence));
  return connection;
}

absl::StatusOr<FileDescriptor> ListenOn(const std::string& address) {
  ASSIGN_OR_RETURN(const SystemAddress own, Parse(address));
  ASSIGN_OR_RETURN(FileDescriptor listener, Open(own));
  if (bind(listener.get(), own.get(), own.size) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return SystemError("cannot listen on", address);
  }
  return listener;
}

absl::StatusOr<FileDescriptor> AcceptFrom(int listener) {
  FileDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.is_open()) {
    return SystemError("cannot accept", "a connection");
  }
  SwitchDelayOff(connection.get());
  return connection;
}

absl::StatusOr<std::string> AddressOf(int listener) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&storage), &size) !=
      0) {
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
  ASSIGN_OR_RETURN(const FileDescriptor listener, ListenOn("127.0.0.1:0"));
  return AddressOf(listener.get());
}

absl::Status SendAll(int connection, std::vector<iovec> vectors) {
  return MoveAll("cannot send", std::move(vectors), [&](msghdr* message) {
    return sendmsg(connection, message, MSG_NOSIGNAL);
  });
}

absl::Status ReceiveAll(int connection, std::vector<iovec> vectors) {
  return MoveAll("cannot receive", std::move(vectors), [&](msghdr* message) {
    return recvmsg(connection, message, 0);
  });
}

}  // namespace tensorkv::bench
