// TLS for the HTTP port.

#ifndef TENSORKV_SERVICE_METRICS_HTTP_CREDENTIALS_H_
#define TENSORKV_SERVICE_METRICS_HTTP_CREDENTIALS_H_

#include <gnutls/gnutls.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/pem.h"

namespace tensorkv {

// Gives the TLS sessions of a port credentials made of texts that may change.
// Not thread-safe.
class HttpCredentials {
 public:
  // Returns the texts to use for a new session, never null.
  using Texts = std::function<std::shared_ptr<const TlsTexts>()>;

  // Errors: InvalidArgument (GnuTLS cannot use the texts).
  static absl::StatusOr<HttpCredentials> Create(Texts texts);

  // Gives the session credentials made of the texts as they are now, or, if
  // GnuTLS cannot use those, of the last that it could use. Where the texts
  // have authorities, the peer is asked for a certificate: one that none of
  // them has signed ends the handshake, but a peer without one goes on. The
  // session uses the result, which must outlive it.
  std::shared_ptr<void> Install(gnutls_session_t session);

 private:
  using Made = std::shared_ptr<gnutls_certificate_credentials_st>;

  HttpCredentials(Texts texts, std::shared_ptr<const TlsTexts> last, Made made)
      : texts_(std::move(texts)),
        last_(std::move(last)),
        made_(std::move(made)) {}

  static absl::StatusOr<Made> Make(const TlsTexts& texts);

  Texts texts_;
  std::shared_ptr<const TlsTexts> last_;
  // The credentials made of `last_`, or of earlier texts.
  Made made_;
};

// Returns whether the peer of the session has shown a certificate. The
// handshake of HttpCredentials has verified it.
bool HasCertificate(gnutls_session_t session);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HTTP_CREDENTIALS_H_
