#include "service/security/server_tls.h"

#include <utility>

#include "base/status_macros.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {
namespace {

grpc_ssl_client_certificate_request_type RequestOf(const TlsOptions& options) {
  if (options.client_ca.empty()) {
    return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  }
  return options.client_cert_is_optional
             ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

// gRPC's own watcher of files ends the process when one is empty, so it gets
// texts. It asks for them at each handshake.
class FollowingCredentials final : public grpc::ServerCredentials {
 public:
  FollowingCredentials(const TlsOptions& options,
                       std::shared_ptr<const ServerCertificates> certificates)
      : certificates_(std::move(certificates)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                RequestOf(options), Fetch, this))) {}
  ~FollowingCredentials() override {
    grpc_server_credentials_release(credentials_);
  }

  // Nobody asks for one.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<FollowingCredentials*>(self)->FetchNext(config);
  }

  grpc_ssl_certificate_config_reload_status FetchNext(
      grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const TlsTexts> texts = certificates_->current();
    MutexLock lock(&mutex_);
    if (texts == fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    fetched_ = std::move(texts);
    const grpc_ssl_pem_key_cert_pair pair = {fetched_->key.c_str(),
                                             fetched_->certificate.c_str()};
    // gRPC wants some also where clients are not asked for certificates.
    const std::string& authorities = fetched_->authorities.empty()
                                         ? fetched_->certificate
                                         : fetched_->authorities;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(),
                                                        &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const ServerCertificates> certificates_;
  Mutex mutex_;
  // The texts that gRPC has got last.
  std::shared_ptr<const TlsTexts> fetched_ ABSL_GUARDED_BY(mutex_);
  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::Status CheckTlsFiles(const TlsOptions& options) {
  if (!options.is_on()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FileText> texts,
                   ReadFiles(ServerCertificates::FilesOf(options)));
  return ServerCertificates().Load(texts);
}

std::vector<WatchedFile> ServerCertificates::FilesOf(
    const TlsOptions& options) {
  return {{"tls_cert", options.cert},
          {"tls_key", options.key},
          {"tls_client_ca", options.client_ca}};
}

absl::Status ServerCertificates::Load(const std::vector<FileText>& texts) {
  const FileText& certificate = texts[0];
  RETURN_IF_ERROR(CheckTls(
      {.certificate = certificate, .key = texts[1], .authorities = texts[2]},
      /*is_first=*/current() == nullptr));
  ASSIGN_OR_RETURN(const absl::Time expiry, ExpiryOf(certificate));
  auto taken = std::make_shared<const TlsTexts>(
      TlsTexts{certificate.text, texts[1].text, texts[2].text});
  MutexLock lock(&mutex_);
  current_ = std::move(taken);
  expiry_ = expiry;
  return absl::OkStatus();
}

std::shared_ptr<const TlsTexts> ServerCertificates::current() const {
  MutexLock lock(&mutex_);
  return current_;
}

absl::Time ServerCertificates::expiry() const {
  MutexLock lock(&mutex_);
  return expiry_;
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const TlsOptions& options,
    std::shared_ptr<const ServerCertificates> certificates) {
  if (!options.is_on()) return grpc::InsecureServerCredentials();
  return std::make_shared<FollowingCredentials>(options,
                                                std::move(certificates));
}

}  // namespace tensorkv
