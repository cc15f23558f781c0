#include "service/server/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tensorkv {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

bool IsUnixSocket(absl::string_view address) {
  return absl::StartsWith(address, "unix:") ||
         absl::StartsWith(address, "unix-abstract:");
}

// "127.0.0.1:80" -> "127.0.0.1", "[::1]:80" -> "::1".
absl::string_view HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return host;
}

absl::string_view PortOf(absl::string_view address) {
  return address.substr(address.rfind(':') + 1);
}

// Null if the host is no number.
AddressList Resolve(absl::string_view host, absl::string_view port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), std::string(port).c_str(), &hints,
                  &found) != 0) {
    found = nullptr;
  }
  return AddressList(found, &freeaddrinfo);
}

std::string UnixSocketFailure(absl::string_view address) {
  if (!absl::ConsumePrefix(&address, "unix:")) return "";
  absl::ConsumePrefix(&address, "//");
  if (address.size() >= sizeof(sockaddr_un().sun_path)) {
    return "File name too long";
  }
  const size_t slash = address.rfind('/');
  const std::string directory(
      slash == absl::string_view::npos ? "." : address.substr(0, slash + 1));
  return access(directory.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

}  // namespace

bool IsListenAddress(absl::string_view address) {
  if (IsUnixSocket(address)) return true;
  uint32_t port = 0;
  return address.rfind(':') != absl::string_view::npos &&
         absl::SimpleAtoi(PortOf(address), &port) && port <= 65535;
}

bool IsNumericAddress(absl::string_view address) {
  return !IsUnixSocket(address) && IsListenAddress(address) &&
         Resolve(HostOf(address), PortOf(address)) != nullptr;
}

bool IsLocalAddress(absl::string_view address) {
  if (IsUnixSocket(address)) return true;
  if (!IsListenAddress(address)) return false;
  const absl::string_view host = HostOf(address);
  if (host == "localhost" || host == "::1") return true;
  // Whole IPv4 addresses only: "127.0.0.1.example.org" is a name.
  return absl::StartsWith(host, "127.") && Resolve(host, "0") != nullptr;
}

std::string WithPort(absl::string_view address, int port) {
  if (IsUnixSocket(address)) return std::string(address);
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

std::string ListenFailure(absl::string_view address) {
  if (IsUnixSocket(address)) return UnixSocketFailure(address);
  const AddressList found = Resolve(HostOf(address), PortOf(address));
  if (found == nullptr) return "";
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  // As servers do, so that connections that linger do not count.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  std::string reason;
  if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) {
    reason = std::strerror(errno);
  }
  close(fd);
  return reason;
}

}  // namespace tensorkv
