#include "service/rpc/peer_credentials.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "grpc/grpc_security_constants.h"

namespace tensorkv {
namespace {

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
std::optional<std::string> HeaderOf(const grpc::ServerContextBase& context,
                                    const char* name) {
  const auto [first, last] = context.client_metadata().equal_range(name);
  if (first == last) return std::nullopt;
  std::string text(first->second.data(), first->second.size());
  for (auto other = std::next(first); other != last; ++other) {
    absl::StrAppend(&text, ",",
                    std::string(other->second.data(), other->second.size()));
  }
  return text;
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
  std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
  char text[INET6_ADDRSTRLEN] = "";
  return inet_ntop(AF_INET6, &network, text, sizeof(text));
}

Peer PeerOf(const grpc::ServerContextBase& context) {
  Peer peer;
  peer.authorization = HeaderOf(context, "authorization");
  peer.client = HeaderOf(context, "tensorkv-client");
  peer.is_local = absl::StartsWith(context.peer(), "unix");
  const std::shared_ptr<const grpc::AuthContext> connection =
      context.auth_context();
  peer.is_private =
      peer.is_local ||
      First(*connection, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME) ==
          GRPC_SSL_TRANSPORT_SECURITY_TYPE;
  if (connection->IsPeerAuthenticated()) {
    peer.certificate = CertificateName(*connection);
  }
  return peer;
}

}  // namespace tensorkv
