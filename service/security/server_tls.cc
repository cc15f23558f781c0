#include "service/security/server_tls.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace tensorkv {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// A server asks nobody for a passphrase.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::Status Wrong(absl::string_view option, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", what));
}

absl::StatusOr<Bio> Open(absl::string_view option, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(option, path));
  Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  BIO_write(bio.get(), text.data(), static_cast<int>(text.size()));
  return bio;
}

absl::StatusOr<Certificate> ReadCertificate(absl::string_view option,
                                            const std::string& path) {
  ASSIGN_OR_RETURN(const Bio bio, Open(option, path));
  Certificate certificate(
      PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr), X509_free);
  if (certificate != nullptr) return certificate;
  return Wrong(option, absl::StrCat("expected a PEM certificate in ", path));
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const Bio bio, Open("tls_key", path));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr),
          EVP_PKEY_free);
  if (key != nullptr) return key;
  return Wrong("tls_key",
               absl::StrCat("expected a PEM key without passphrase in ", path));
}

grpc_ssl_client_certificate_request_type RequestOf(const TlsOptions& options) {
  if (options.client_ca.empty()) {
    return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  }
  return options.client_cert_is_optional
             ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsOptions& options) {
  if (!options.is_on()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ReadCertificate("tls_cert", options.cert));
  ASSIGN_OR_RETURN(const Key key, ReadKey(options.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Wrong("tls_key", absl::StrCat("expected the key of ", options.cert,
                                         ", got another in ", options.key));
  }
  if (options.client_ca.empty()) return absl::OkStatus();
  return CheckAuthorities("tls_client_ca", options.client_ca);
}

absl::Status CheckAuthorities(absl::string_view option,
                              const std::string& path) {
  return ReadCertificate(option, path).status();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& options) {
  if (!options.is_on()) return grpc::InsecureServerCredentials();
  // Else the server would start, and every handshake fail.
  RETURN_IF_ERROR(CheckTlsFiles(options));
  grpc::experimental::TlsServerCredentialsOptions tls(
      std::make_shared<FileWatcherCertificateProvider>(
          options.key, options.cert, options.client_ca,
          static_cast<unsigned>(absl::ToInt64Seconds(options.refresh))));
  tls.watch_identity_key_cert_pairs();
  if (!options.client_ca.empty()) tls.watch_root_certs();
  tls.set_cert_request_type(RequestOf(options));
  return grpc::experimental::TlsServerCredentials(tls);
}

}  // namespace tensorkv
