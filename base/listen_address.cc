#include "base/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tensorkv {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns null if the host is no number.
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

}  // namespace

bool IsUnixSocket(absl::string_view address) {
  return absl::StartsWith(address, "unix:") ||
         absl::StartsWith(address, "unix-abstract:");
}

// Makes "127.0.0.1" of "127.0.0.1:80", and "::1" of "[::1]:80".
absl::string_view HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return host;
}

absl::string_view PortOf(absl::string_view address) {
  return address.substr(address.rfind(':') + 1);
}

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

}  // namespace tensorkv
