// Who a caller is.

#ifndef TENSORKV_SERVICE_SECURITY_IDENTITY_H_
#define TENSORKV_SERVICE_SECURITY_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "service/security/token_file.h"

namespace tensorkv {

// What a connection proves of its other end, and what a call claims.
struct Peer {
  // Nobody else reads what it sends: TLS, or a Unix socket.
  bool is_private = false;
  // The name in a certificate that was verified: a SPIFFE ID, "dns:NAME",
  // "san:NAME", "cn:NAME", or nothing.
  std::optional<std::string> certificate;
  // Who runs the process at the other end of a Unix socket.
  std::optional<uint32_t> uid;
  // The header of that name.
  std::optional<std::string> authorization;
};

// The first of these that there is: "token:NAME", the certificate's name,
// "uid:NUMBER", "anonymous". So a process with a certificate can say whose work
// it does.
// Errors: Unauthenticated, for a claim that does not hold. Nothing in it is
// secret.
absl::StatusOr<std::string> IdentityOf(const Peer& peer,
                                       const TokenFile& tokens);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_IDENTITY_H_
