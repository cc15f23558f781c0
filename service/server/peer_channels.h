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

// Checks that the files by which a server connects to others are there, and are
// right. Errors: InvalidArgument, naming the option.
absl::Status CheckPeerFiles(const ServerOptions& options);

// Connections to other servers: over TLS where the server itself takes TLS and
// has a cluster, with its own certificate and a token if there is one, and else
// in plain text. Thread-safe.
class PeerChannels {
 public:
  explicit PeerChannels(const ServerOptions& options) : options_(options) {}

  // Returns the files that Take takes, in its order; none in plain text.
  std::vector<WatchedFile> files() const;
  // Checks the texts, and has them count for the channels from then on. One
  // whose certificate counts no more, or not yet, does not take the place of
  // others. Errors: InvalidArgument, naming the option.
  absl::Status Take(const std::vector<FileText>& texts);

  // Returns a channel to that server: the same one for as long as somebody
  // keeps it and what has been taken last has not changed. Without what it
  // takes to prove who this is, all calls fail.
  std::shared_ptr<grpc::Channel> To(const std::string& address);

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
