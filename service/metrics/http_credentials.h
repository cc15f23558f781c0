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

// Has TLS sessions of a port follow texts that change. Not thread-safe.
class HttpCredentials {
 public:
  // Returns the texts that count now, never null.
  using Texts = std::function<std::shared_ptr<const TlsTexts>()>;

  // Errors: InvalidArgument (GnuTLS cannot use the texts).
  static absl::StatusOr<HttpCredentials> Create(Texts texts);

  // Has the session prove itself by the texts as they are, or, if GnuTLS cannot
  // use those, by the last ones that it could. Where there are authorities, the
  // peer is asked for a certificate, and one that none of them has signed ends
  // the handshake; without one it goes on. The result must outlive the session.
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
  // Is made of `last_`, or of earlier texts.
  Made made_;
};

// Returns whether the peer has shown a certificate, which has been verified.
bool HasCertificate(gnutls_session_t session);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_HTTP_CREDENTIALS_H_
