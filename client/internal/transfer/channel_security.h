// Declares what protects a client's channels.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_CHANNEL_SECURITY_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_CHANNEL_SECURITY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/watched_files.h"
#include "channels/file_credentials.h"
#include "channels/open_channel.h"
#include "client/credentials.h"
#include "grpcpp/security/credentials.h"

namespace tensorkv {

// WatchedCredentials reads the files of credentials again and again, and holds
// what they say. Thread-safe.
class WatchedCredentials {
 public:
  // Returns the object that all callers with the same files share, and reads
  // the files first; null if there are no files. `period` is the time from one
  // look at the files to the next, of the caller who comes first.
  // Errors: InvalidArgument, naming the option: a file that cannot be read or
  // is none of its kind, a certificate without its key, TLS options without
  // tls_ca or for a Unix socket, a token for a target that would get it in
  // plain text · DeadlineExceeded: the first caller cannot read the files in
  // time. Later callers then get what was right last.
  static absl::StatusOr<std::shared_ptr<const WatchedCredentials>> Of(
      const Credentials& credentials, const std::string& target,
      absl::Duration period = absl::Seconds(2));
  ~WatchedCredentials();

  // Returns the credentials that the files said last when they were right: the
  // same object until they change.
  std::shared_ptr<grpc::ChannelCredentials> current() const {
    return credentials_.current();
  }
  // Returns what is wrong with the files as they are; OK if nothing is.
  absl::Status status() const { return files_->status(); }

 private:
  explicit WatchedCredentials(FileCredentials::Options options)
      : credentials_(std::move(options)) {}

  FileCredentials credentials_;
  SteadyAlarms alarms_;
  std::unique_ptr<WatchedFiles> files_;  // const once watched
};

// Reads the files once, and watches none. Errors: InvalidArgument, as of
// WatchedCredentials::Of.
absl::StatusOr<ChannelSecurity> MakeChannelSecurity(
    const Credentials& credentials, const std::string& target);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_CHANNEL_SECURITY_H_
