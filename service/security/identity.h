// Tells who a caller is.

#ifndef TENSORKV_SERVICE_SECURITY_IDENTITY_H_
#define TENSORKV_SERVICE_SECURITY_IDENTITY_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/security/token_file.h"

namespace tensorkv {

// Returns whether `name` has the form of a certificate's name: "spiffe://...",
// "dns:NAME", "san:NAME" or "cn:NAME".
bool IsNameOfCertificate(absl::string_view name);

// Holds what a connection proves of its other end, and what a call claims.
struct Peer {
  // True if nobody else can read what it sends: TLS, or a Unix socket.
  bool is_private = false;
  // The name in a certificate that was verified (IsNameOfCertificate).
  std::optional<std::string> certificate;
  // True if it is connected by a Unix socket.
  bool is_local = false;
  // The headers "authorization" and "tensorkv-client"; several of one name are
  // joined by commas, as HTTP joins them.
  std::optional<std::string> authorization;
  std::optional<std::string> client;
};

// Returns the identity of a caller: "token:NAME" if it shows a token, else its
// certificate's name, else "unix" for a Unix socket, else "anonymous". So a
// process with a certificate can say by a token whose work it does. The result
// is not secret. Errors: Unauthenticated: a token that nobody has, or that came
// in plain text, or a certificate without a usable name.
absl::StatusOr<std::string> IdentityOf(const Peer& peer,
                                       const TokenFile& tokens);

// Returns the identity for which a front calls: the name of a certificate that
// its header "tensorkv-client" has, or "anonymous" without that header. Errors:
// Unauthenticated: the header is no such name, or has several.
absl::StatusOr<std::string> ForwardedIdentityOf(const Peer& front);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_IDENTITY_H_
