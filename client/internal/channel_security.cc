#include "client/internal/channel_security.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace tensorkv {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned kRefreshSeconds = 10;

absl::Status Wrong(absl::string_view option, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", what));
}

// Tells at once of a file that is plainly another; with it, gRPC would try to
// connect until the call's deadline.
absl::Status CheckPem(absl::string_view option, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(option, path));
  if (text.find("-----BEGIN ") != std::string::npos) return absl::OkStatus();
  return Wrong(option, absl::StrCat("expected PEM in ", path));
}

absl::Status CheckTls(const Credentials& credentials, bool is_unix) {
  if (credentials.tls_cert.empty() != credentials.tls_key.empty()) {
    return Wrong(credentials.tls_cert.empty() ? "tls_cert" : "tls_key",
                 "expected the certificate and its key, got one of them");
  }
  if (credentials.tls_ca.empty()) {
    if (credentials.tls_cert.empty() && credentials.tls_server_name.empty()) {
      return absl::OkStatus();
    }
    return Wrong("tls_ca",
                 "expected the authority of the server's certificate, as "
                 "other options of TLS are given");
  }
  if (is_unix) {
    return Wrong("tls_ca", "Unix sockets are not encrypted: leave TLS out");
  }
  RETURN_IF_ERROR(CheckPem("tls_ca", credentials.tls_ca));
  RETURN_IF_ERROR(CheckPem("tls_cert", credentials.tls_cert));
  return CheckPem("tls_key", credentials.tls_key);
}

std::shared_ptr<grpc::ChannelCredentials> TlsOf(
    const Credentials& credentials) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<FileWatcherCertificateProvider>(
          credentials.tls_key, credentials.tls_cert, credentials.tls_ca,
          kRefreshSeconds));
  options.watch_root_certs();
  if (!credentials.tls_cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<std::string> TokenOf(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile("token_file", path));
  std::string token(absl::StripAsciiWhitespace(text));
  const auto is_of_token = [](char c) { return absl::ascii_isgraph(c); };
  if (!token.empty() && std::all_of(token.begin(), token.end(), is_of_token)) {
    return token;
  }
  // The text itself is a secret, or part of one.
  return Wrong("token_file", absl::StrCat("expected one token in ", path));
}

}  // namespace

absl::StatusOr<ChannelSecurity> MakeChannelSecurity(
    const Credentials& credentials, const std::string& target) {
  const bool is_unix = IsUnixSocket(target);
  RETURN_IF_ERROR(CheckTls(credentials, is_unix));
  ChannelSecurity security;
  if (!credentials.tls_ca.empty()) {
    security.credentials = TlsOf(credentials);
    security.server_name = credentials.tls_server_name;
  } else if (is_unix && !credentials.token_file.empty()) {
    // Plain text that gRPC knows to stay on this machine.
    security.credentials = grpc::experimental::LocalCredentials(UDS);
  }
  if (credentials.token_file.empty()) return security;
  if (credentials.tls_ca.empty() && !is_unix) {
    return Wrong("token_file",
                 absl::StrCat("a token is not sent to ", target,
                              " in plain text: give tls_ca, or use a Unix "
                              "socket"));
  }
  ASSIGN_OR_RETURN(const std::string token, TokenOf(credentials.token_file));
  security.credentials = grpc::CompositeChannelCredentials(
      security.credentials, grpc::AccessTokenCredentials(token));
  return security;
}

}  // namespace tensorkv
