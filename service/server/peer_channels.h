// Connects a server to the others of its cluster.

#ifndef TENSORKV_SERVICE_SERVER_PEER_CHANNELS_H_
#define TENSORKV_SERVICE_SERVER_PEER_CHANNELS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/watched_files.h"
#include "grpcpp/grpcpp.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Checks that the files of the options `cluster_tls_ca` and
// `cluster_token_file` can be read, and that the former has certificates.
// Errors: InvalidArgument, naming the option.
absl::Status CheckPeerFiles(const ServerOptions& options);

// Connections to other servers: over TLS where the server itself takes TLS and
// has a cluster, with its own certificate and a token if there is one, and else
// in plain text. Thread-safe.
class PeerChannels {
 public:
  explicit PeerChannels(const ServerOptions& options) : options_(options) {}

  // Returns the files whose texts Load takes, in its order; none in plain text.
  std::vector<WatchedFile> files() const;
  // Checks the texts of `files()`, and makes the channels from now on by them.
  // A certificate that has expired, or is not valid yet, is refused, unless it
  // is the first. Errors: InvalidArgument, naming the option; then the texts
  // that were loaded last stay.
  absl::Status Load(const std::vector<FileText>& texts);

  // Returns a channel to the server at `address`, without connecting: the same
  // one for as long as somebody keeps it and no other texts were loaded.
  // REQUIRES: Load has succeeded, unless in plain text.
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

 private:
  bool is_plain() const {
    return !options_.tls.is_on() || !options_.cluster.has_value();
  }

  const ServerOptions options_;
  Mutex mutex_;
  // Null before the first.
  std::shared_ptr<grpc::ChannelCredentials> credentials_
      ABSL_GUARDED_BY(mutex_);
  // The channels made with these credentials.
  std::map<std::string, std::weak_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_PEER_CHANNELS_H_
