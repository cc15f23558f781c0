#include "service/metrics/http_credentials.h"

#include <gnutls/x509.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

gnutls_datum_t DatumOf(const std::string& text) {
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
          static_cast<unsigned int>(text.size())};
}

// `result` is what a function of GnuTLS has returned.
absl::Status StatusOf(const char* options, int result) {
  if (result >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options,
      ": expected files that GnuTLS can use: ", gnutls_strerror(result)));
}

// Refuses what was not signed for clients by one of the authorities.
int VerifyPeer(gnutls_session_t session) {
  if (!HasCertificate(session)) return 0;
  gnutls_typed_vdata_st for_clients = {
      .type = GNUTLS_DT_KEY_PURPOSE_OID,
      .data = reinterpret_cast<unsigned char*>(
          const_cast<char*>(GNUTLS_KP_TLS_WWW_CLIENT)),
      .size = 0};
  unsigned int faults = 0;
  const int result =
      gnutls_certificate_verify_peers(session, &for_clients, 1, &faults);
  return result < 0 || faults != 0 ? GNUTLS_E_CERTIFICATE_ERROR : 0;
}

}  // namespace

absl::StatusOr<HttpCredentials> HttpCredentials::Create(Texts texts) {
  std::shared_ptr<const TlsTexts> first = texts();
  ASSIGN_OR_RETURN(Made made, Make(*first));
  return HttpCredentials(std::move(texts), std::move(first), std::move(made));
}

std::shared_ptr<void> HttpCredentials::Install(gnutls_session_t session) {
  std::shared_ptr<const TlsTexts> texts = texts_();
  if (texts != last_) {
    absl::StatusOr<Made> made = Make(*texts);
    if (made.ok()) made_ = *std::move(made);
    last_ = std::move(texts);
  }
  gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, made_.get());
  if (!last_->authorities.empty()) {
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
  }
  return made_;
}

absl::StatusOr<HttpCredentials::Made> HttpCredentials::Make(
    const TlsTexts& texts) {
  gnutls_certificate_credentials_t credentials = nullptr;
  RETURN_IF_ERROR(StatusOf(
      "metrics_tls", gnutls_certificate_allocate_credentials(&credentials)));
  Made made(credentials, gnutls_certificate_free_credentials);
  const gnutls_datum_t certificate = DatumOf(texts.certificate);
  const gnutls_datum_t key = DatumOf(texts.key);
  RETURN_IF_ERROR(
      StatusOf("tls_cert, tls_key",
               gnutls_certificate_set_x509_key_mem(credentials, &certificate,
                                                   &key, GNUTLS_X509_FMT_PEM)));
  if (!texts.authorities.empty()) {
    const gnutls_datum_t authorities = DatumOf(texts.authorities);
    RETURN_IF_ERROR(StatusOf(
        "tls_client_ca", gnutls_certificate_set_x509_trust_mem(
                             credentials, &authorities, GNUTLS_X509_FMT_PEM)));
  }
  gnutls_certificate_set_verify_function(credentials, VerifyPeer);
  return made;
}

bool HasCertificate(gnutls_session_t session) {
  unsigned int num_certificates = 0;
  return gnutls_certificate_get_peers(session, &num_certificates) != nullptr &&
         num_certificates > 0;
}

}  // namespace tensorkv
