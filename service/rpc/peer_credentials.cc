#include "service/rpc/peer_credentials.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "grpc/grpc_security_constants.h"

namespace tensorkv {
namespace {

// What comes before the user in the address of a Unix socket: an abstract name,
// which no address with a path looks like. Peers may choose abstract names too,
// but not know the random part of this one.
const std::string& UserPrefix() {
  static const auto* const prefix = [] {
    uint64_t nonce[2];
    if (getentropy(nonce, sizeof(nonce)) != 0) std::abort();
    return new std::string(
        absl::StrCat("tensorkv.", absl::Hex(nonce[0], absl::kZeroPad16),
                     absl::Hex(nonce[1], absl::kZeroPad16), ".uid."));
  }();
  return *prefix;
}

using Values = std::vector<grpc::string_ref>;

std::string First(const grpc::AuthContext& connection, const char* property) {
  const Values values = connection.FindPropertyValues(property);
  return values.empty() ? "" : std::string(values[0].data(), values[0].size());
}

// A SPIFFE ID comes first, then a DNS name, another alternative name, and the
// common name; empty if there is none of them.
std::string CertificateName(const grpc::AuthContext& connection) {
  std::string name = First(connection, GRPC_PEER_SPIFFE_ID_PROPERTY_NAME);
  if (!name.empty()) return name;
  for (const auto& [kind, property] :
       {std::pair{"dns:", GRPC_PEER_DNS_PROPERTY_NAME},
        {"san:", GRPC_X509_SAN_PROPERTY_NAME},
        {"cn:", GRPC_X509_CN_PROPERTY_NAME}}) {
    name = First(connection, property);
    if (!name.empty()) return absl::StrCat(kind, name);
  }
  return "";
}

// Several headers come as one, as HTTP joins them.
std::optional<std::string> AuthorizationOf(
    const grpc::ServerContextBase& context) {
  const auto [first, last] =
      context.client_metadata().equal_range("authorization");
  if (first == last) return std::nullopt;
  std::string text(first->second.data(), first->second.size());
  for (auto other = std::next(first); other != last; ++other) {
    absl::StrAppend(&text, ",",
                    std::string(other->second.data(), other->second.size()));
  }
  return text;
}

// Puts the peer's user into the address of a Unix socket. Nothing stays there
// of what the peer has chosen.
void TellUser(int fd, sockaddr* address, socklen_t room, socklen_t* size) {
  ucred credentials = {};
  socklen_t credentials_size = sizeof(credentials);
  std::string name(1, '\0');
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials,
                 &credentials_size) == 0) {
    absl::StrAppend(&name, UserPrefix(), credentials.uid);
  }
  constexpr size_t kPathOffset = offsetof(sockaddr_un, sun_path);
  char* const bytes = reinterpret_cast<char*>(address);
  std::fill(bytes + kPathOffset, bytes + room, '\0');
  *size = kPathOffset;
  if (room < kPathOffset + name.size()) return;
  std::copy(name.begin(), name.end(), bytes + kPathOffset);
  *size = static_cast<socklen_t>(kPathOffset + name.size());
}

}  // namespace

std::string PeerHostOf(absl::string_view peer_address) {
  // "ipv4:10.0.0.7:4711", "ipv6:%5B2001:db8::1%25eth0%5D:4711"
  const std::string address =
      absl::StrReplaceAll(peer_address.substr(0, peer_address.rfind(':')),
                          {{"%5B", "["}, {"%5D", "]"}});
  absl::string_view host = address;
  if (absl::ConsumePrefix(&host, "ipv4:")) return std::string(host);
  if (!absl::ConsumePrefix(&host, "ipv6:")) return address;
  absl::ConsumePrefix(&host, "[");
  host = host.substr(0, host.find_first_of("%]"));
  in6_addr network = {};
  if (inet_pton(AF_INET6, std::string(host).c_str(), &network) != 1) {
    return address;
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&network)) {
    return inet_ntop(AF_INET, network.s6_addr + 12, text, sizeof(text));
  }
  std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
  return inet_ntop(AF_INET6, &network, text, sizeof(text));
}

std::optional<uint32_t> UserOf(absl::string_view peer_address) {
  uint32_t user = 0;
  if (absl::ConsumePrefix(&peer_address, "unix-abstract:") &&
      absl::ConsumePrefix(&peer_address, UserPrefix()) &&
      absl::SimpleAtoi(peer_address, &user)) {
    return user;
  }
  return std::nullopt;
}

Peer PeerOf(const grpc::ServerContextBase& context) {
  Peer peer;
  peer.authorization = AuthorizationOf(context);
  peer.uid = UserOf(context.peer());
  const std::shared_ptr<const grpc::AuthContext> connection =
      context.auth_context();
  peer.is_private =
      peer.uid ||
      First(*connection, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME) ==
          GRPC_SSL_TRANSPORT_SECURITY_TYPE;
  if (connection->IsPeerAuthenticated()) {
    peer.certificate = CertificateName(*connection);
  }
  return peer;
}

}  // namespace tensorkv

// In front of the C library's: gRPC's library finds this one first.
extern "C" int getpeername(int fd, sockaddr* address,
                           socklen_t* size) noexcept {
  using Function = int (*)(int, sockaddr*, socklen_t*);
  static const auto next =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getpeername"));
  const socklen_t room = size == nullptr ? 0 : *size;
  const int result = next(fd, address, size);
  if (result == 0 && room >= sizeof(sa_family_t) &&
      address->sa_family == AF_UNIX) {
    tensorkv::TellUser(fd, address, room, size);
  }
  return result;
}
