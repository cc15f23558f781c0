// Tells who a caller is.

#ifndef TENSORKV_SERVICE_SECURITY_IDENTITY_H_
#define TENSORKV_SERVICE_SECURITY_IDENTITY_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/security/token_file.h"

namespace tensorkv {

// Returns whether `name` is one that certificates have: a SPIFFE ID,
// "dns:NAME", "san:NAME" or "cn:NAME".
bool IsNameOfCertificate(absl::string_view name);

// Holds what a connection proves of its other end, and what a call claims.
struct Peer {
  // Nobody else reads what it sends: TLS, or a Unix socket.
  bool is_private = false;
  // The name in a certificate that was verified (IsNameOfCertificate).
  std::optional<std::string> certificate;
  // It is connected by a Unix socket.
  bool is_local = false;
  // The headers "authorization" and "tensorkv-client"; several of one name are
  // joined by commas, as HTTP joins them.
  std::optional<std::string> authorization;
  std::optional<std::string> client;
};

// Returns the first of these that there is: "token:NAME", the certificate's
// name, "unix", "anonymous". So a process with a certificate can say whose work
// it does. Errors: Unauthenticated, for a claim that does not hold. Nothing in
// it is secret.
absl::StatusOr<std::string> IdentityOf(const Peer& peer,
                                       const TokenFile& tokens);

// Returns for whom a front calls: whoever its header names, by the name of a
// certificate, or "anonymous". Errors: Unauthenticated, for a header that is no
// such name, or several. Thread-safe.
absl::StatusOr<std::string> ForwardedIdentityOf(const Peer& front);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_IDENTITY_H_
