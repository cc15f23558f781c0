#include "client/internal/transfer/channel_security.h"

#include <unistd.h>

#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/listen_address.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

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

// REQUIRES: CheckOptions is OK. What has no files is in plain text.
FileCredentials::Options OptionsOf(const Credentials& credentials,
                                   const std::string& target) {
  if (credentials.tls_ca.empty() && credentials.token_file.empty()) return {};
  return {.files = {{"tls_cert", credentials.tls_cert},
                    {"tls_key", credentials.tls_key},
                    {"tls_ca", credentials.tls_ca},
                    {"token_file", credentials.token_file}},
          .transport = IsUnixSocket(target)
                           ? FileCredentials::Transport::kUnixSocket
                           : FileCredentials::Transport::kTls};
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
  FileCredentials::Options options = OptionsOf(credentials, target);
  if (options.files.empty()) return nullptr;
  const FilesOfProcess files = {getpid(),
                                IsUnixSocket(target),
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
  std::shared_ptr<WatchedCredentials> made(
      new WatchedCredentials(std::move(options)));
  ASSIGN_OR_RETURN(
      made->files_,
      WatchedFiles::Create({.files = made->credentials_.files(),
                            .apply = std::bind_front(&FileCredentials::Load,
                                                     &made->credentials_),
                            .period = period},
                           &made->alarms_));
  MutexLock lock(&watched.mutex);
  watched.by_files[files] = made;
  return made;
}

WatchedCredentials::~WatchedCredentials() {
  if (files_ != nullptr) files_->Stop();
}

absl::StatusOr<ChannelSecurity> MakeChannelSecurity(
    const Credentials& credentials, const std::string& target) {
  RETURN_IF_ERROR(CheckOptions(credentials, target));
  FileCredentials read(OptionsOf(credentials, target));
  RETURN_IF_ERROR(read.Read());
  return ChannelSecurity{.credentials = read.current(),
                         .server_name = credentials.tls_server_name};
}

}  // namespace tensorkv
