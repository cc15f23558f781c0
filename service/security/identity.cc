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

absl::StatusOr<std::string> IdentityOf(const Peer& peer,
                                       const TokenFile& tokens) {
  if (peer.authorization) return BearerOf(peer, tokens);
  if (peer.certificate) return NameOf(*peer.certificate);
  if (peer.uid) return absl::StrCat("uid:", *peer.uid);
  return std::string(kAnonymous);
}

}  // namespace tensorkv
