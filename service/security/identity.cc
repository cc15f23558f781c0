#include "service/security/identity.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/tensor_store.h"

namespace tensorkv {
namespace {

// The identity of all who connect by a Unix socket and show no token.
constexpr char kUnixCaller[] = "unix";
constexpr absl::string_view kScheme = "Bearer ";

absl::Status Refused(absl::string_view why) {
  return WithReason(absl::UnauthenticatedError(why), Reason::kUnauthenticated);
}

absl::StatusOr<std::string> BearerOf(const Peer& peer,
                                     const TokenFile& tokens) {
  if (!peer.is_private) {
    return Refused(
        "authorization: tokens are taken over TLS and Unix sockets only; this "
        "one came in plain text, and others may have read it: replace it");
  }
  absl::string_view token = *peer.authorization;
  if (!absl::StartsWithIgnoreCase(token, kScheme)) {
    return Refused("authorization: expected a bearer token");
  }
  token.remove_prefix(kScheme.size());
  if (token.empty()) return Refused("authorization: the token is empty");
  const std::optional<std::string> name = tokens.NameOf(token);
  if (!name) return Refused("authorization: nobody has that token");
  return absl::StrCat("token:", *name);
}

absl::StatusOr<std::string> NameOf(const std::string& certificate) {
  if (certificate.empty()) return Refused("certificate: it has no name");
  if (std::any_of(certificate.begin(), certificate.end(),
                  [](char c) { return absl::ascii_iscntrl(c); })) {
    return Refused("certificate: its name has control characters");
  }
  return certificate;
}

}  // namespace

bool IsNameOfCertificate(absl::string_view name) {
  constexpr absl::string_view kKinds[] = {"spiffe://", "dns:", "san:", "cn:"};
  return std::ranges::any_of(kKinds, [&](absl::string_view kind) {
    return absl::StartsWith(name, kind) && name.size() > kind.size();
  });
}

absl::StatusOr<std::string> IdentityOf(const Peer& peer,
                                       const TokenFile& tokens) {
  if (peer.authorization) return BearerOf(peer, tokens);
  if (peer.certificate) return NameOf(*peer.certificate);
  if (peer.is_local) return std::string(kUnixCaller);
  return std::string(kAnonymous);
}

absl::StatusOr<std::string> ForwardedIdentityOf(const Peer& front) {
  if (!front.client) return std::string(kAnonymous);
  const std::string& name = *front.client;
  // A comma may join two headers, the first of which the front has not made.
  if (!absl::StrContains(name, ',') && IsNameOfCertificate(name)) {
    return NameOf(name);
  }
  return Refused(
      "tensorkv-client: expected the name of one certificate, such as cn:NAME");
}

}  // namespace tensorkv
