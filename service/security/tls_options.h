// Says how a server encrypts its connections.

#ifndef TENSORKV_SERVICE_SECURITY_TLS_OPTIONS_H_
#define TENSORKV_SERVICE_SECURITY_TLS_OPTIONS_H_

#include <string>

namespace tensorkv {

// TlsOptions names PEM files.
struct TlsOptions {
  bool is_on() const { return !cert.empty(); }
  // Returns whether a client without a certificate is refused.
  bool needs_client_cert() const {
    return !client_ca.empty() && !client_cert_is_optional;
  }

  // The server's certificate, with the chain up to the authority, and its key.
  // Both or none; none is plain text.
  std::string cert;
  std::string key;
  // The authorities that may sign certificates of clients; empty: clients are
  // not asked for any.
  std::string client_ca;
  // True if a client without a certificate may connect too; it may prove itself
  // by a token.
  bool client_cert_is_optional = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_TLS_OPTIONS_H_
