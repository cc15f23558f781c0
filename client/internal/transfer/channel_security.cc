#include "client/internal/transfer/channel_security.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/listen_address.h"
#include "base/pem.h"
#include "base/status_macros.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace tensorkv {
namespace {

using grpc::experimental::StaticDataCertificateProvider;

absl::Status Wrong(absl::string_view option, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", what));
}

// Checks which options there are, and not what the files say.
absl::Status CheckOptions(const Credentials& credentials,
                          const std::string& target) {
  const bool is_unix = IsUnixSocket(target);
  if (credentials.tls_cert.empty() != credentials.tls_key.empty()) {
    return Wrong(credentials.tls_cert.empty() ? "tls_cert" : "tls_key",
                 "expected the certificate and its key, got one of them");
  }
  if (credentials.tls_ca.empty()) {
    if (!credentials.tls_cert.empty() || !credentials.tls_server_name.empty()) {
      return Wrong("tls_ca",
                   "expected the authority of the server's certificate, as "
                   "other options of TLS are given");
    }
  } else if (is_unix) {
    return Wrong("tls_ca", "Unix sockets are not encrypted: leave TLS out");
  }
  if (credentials.token_file.empty() || is_unix ||
      !credentials.tls_ca.empty()) {
    return absl::OkStatus();
  }
  return Wrong("token_file",
               absl::StrCat("a token is not sent to ", target,
                            " in plain text: give tls_ca, or use a Unix "
                            "socket"));
}

std::vector<WatchedFile> FilesOf(const Credentials& credentials) {
  return {{"tls_ca", credentials.tls_ca},
          {"tls_cert", credentials.tls_cert},
          {"tls_key", credentials.tls_key},
          {"token_file", credentials.token_file}};
}

bool HasFiles(const Credentials& credentials) {
  return !credentials.tls_ca.empty() || !credentials.token_file.empty();
}

// Errors: InvalidArgument, naming the option.
absl::Status Check(const std::vector<FileText>& texts) {
  if (!texts[0].path.empty()) RETURN_IF_ERROR(CheckAuthorities(texts[0]));
  if (!texts[1].path.empty()) {
    RETURN_IF_ERROR(CheckCertificate(texts[1], texts[2]));
  }
  const FileText& file = texts[3];
  const absl::string_view token = absl::StripAsciiWhitespace(file.text);
  const auto is_of_token = [](char c) { return absl::ascii_isgraph(c); };
  if (file.path.empty() ||
      (!token.empty() &&
       std::all_of(token.begin(), token.end(), is_of_token))) {
    return absl::OkStatus();
  }
  // The text itself is a secret, or part of one.
  return Wrong("token_file", absl::StrCat("expected one token in ", file.path));
}

// gRPC's own watcher of files ends the process when one is empty, so it gets
// texts. They have been checked.
std::shared_ptr<grpc::ChannelCredentials> TlsOf(const FileText& authorities,
                                                const FileText& certificate,
                                                const FileText& key) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (certificate.path.empty()) {
    options.set_certificate_provider(
        std::make_shared<StaticDataCertificateProvider>(authorities.text));
  } else {
    options.set_certificate_provider(
        std::make_shared<StaticDataCertificateProvider>(
            authorities.text,
            std::vector<grpc::experimental::IdentityKeyCertPair>{
                {key.text, certificate.text}}));
    options.watch_identity_key_cert_pairs();
  }
  options.watch_root_certs();
  return grpc::experimental::TlsCredentials(options);
}

// REQUIRES: Check is OK.
std::shared_ptr<grpc::ChannelCredentials> CredentialsFrom(
    const std::vector<FileText>& texts, bool is_unix) {
  // On a Unix socket, plain text that gRPC knows to stay on this machine.
  const std::shared_ptr<grpc::ChannelCredentials> connection =
      is_unix ? grpc::experimental::LocalCredentials(UDS)
              : TlsOf(texts[0], texts[1], texts[2]);
  if (texts[3].path.empty()) return connection;
  return grpc::CompositeChannelCredentials(
      connection, grpc::AccessTokenCredentials(
                      std::string(absl::StripAsciiWhitespace(texts[3].text))));
}

// FilesOfProcess names watched files. A forked child has no thread of its
// parent, and so watches none of these.
using FilesOfProcess =
    std::tuple<pid_t, bool, std::string, std::string, std::string, std::string>;
struct Watched {
  Mutex mutex;
  std::map<FilesOfProcess, std::weak_ptr<const WatchedCredentials>> by_files
      ABSL_GUARDED_BY(mutex);
};

Watched& AllWatched() {
  static auto* const watched = new Watched;
  return *watched;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const WatchedCredentials>>
WatchedCredentials::Of(const Credentials& credentials,
                       const std::string& target, absl::Duration period) {
  RETURN_IF_ERROR(CheckOptions(credentials, target));
  if (!HasFiles(credentials)) return nullptr;
  const bool is_unix = IsUnixSocket(target);
  const FilesOfProcess files = {getpid(),
                                is_unix,
                                credentials.tls_ca,
                                credentials.tls_cert,
                                credentials.tls_key,
                                credentials.token_file};
  Watched& watched = AllWatched();
  std::shared_ptr<const WatchedCredentials> shared;
  {
    MutexLock lock(&watched.mutex);
    shared = watched.by_files[files].lock();
  }
  if (shared != nullptr) {
    // Whoever begins has the files as they are now, or is told what is wrong;
    // while the file system stands still, what was right last.
    const absl::Status status = shared->files_->ReloadUnlessTimedOut();
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
    return shared;
  }
  // Without the lock, as files may be read for long. Of two that are made at
  // the same time, both are used.
  std::shared_ptr<WatchedCredentials> made(new WatchedCredentials(is_unix));
  RETURN_IF_ERROR(made->Watch(credentials, period));
  MutexLock lock(&watched.mutex);
  watched.by_files[files] = made;
  return made;
}

WatchedCredentials::~WatchedCredentials() {
  if (files_ != nullptr) files_->Stop();
}

absl::Status WatchedCredentials::Watch(const Credentials& credentials,
                                       absl::Duration period) {
  ASSIGN_OR_RETURN(
      files_, WatchedFiles::Create(
                  {.files = FilesOf(credentials),
                   .apply = std::bind_front(&WatchedCredentials::Take, this),
                   .period = period},
                  &alarms_));
  return absl::OkStatus();
}

absl::Status WatchedCredentials::Take(const std::vector<FileText>& texts) {
  RETURN_IF_ERROR(Check(texts));
  // At the start there is nothing better.
  if (!texts[1].path.empty() && current() != nullptr) {
    RETURN_IF_ERROR(CheckDates(texts[1], absl::Now()));
  }
  auto taken = CredentialsFrom(texts, is_unix_);
  MutexLock lock(&mutex_);
  current_ = std::move(taken);
  return absl::OkStatus();
}

std::shared_ptr<grpc::ChannelCredentials> WatchedCredentials::current() const {
  MutexLock lock(&mutex_);
  return current_;
}

absl::StatusOr<ChannelSecurity> MakeChannelSecurity(
    const Credentials& credentials, const std::string& target) {
  RETURN_IF_ERROR(CheckOptions(credentials, target));
  ChannelSecurity security;
  if (!HasFiles(credentials)) return security;
  ASSIGN_OR_RETURN(const std::vector<FileText> texts,
                   ReadFiles(FilesOf(credentials)));
  RETURN_IF_ERROR(Check(texts));
  security.credentials = CredentialsFrom(texts, IsUnixSocket(target));
  security.server_name = credentials.tls_server_name;
  return security;
}

}  // namespace tensorkv
