// Connects a server to others, over TLS by files that may change.

#ifndef TENSORKV_SERVICE_CLUSTER_TLS_CHANNELS_H_
#define TENSORKV_SERVICE_CLUSTER_TLS_CHANNELS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/watched_files.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Channels to processes of one kind: the other servers of the cluster, or etcd.
// Thread-safe.
class TlsChannels {
 public:
  // Makes of the secret what proves the caller in each call.
  using Prove = std::function<std::shared_ptr<grpc::CallCredentials>(
      const std::string& secret)>;

  // Connects over TLS, or in plain text if there are no files at all. `files`
  // are the certificate that is shown to the others, its key, the authorities
  // that may sign theirs, and a secret, in this order. One without a path is
  // not used; without authorities, those of the system count. Where `prove` is
  // null, channels do not send the secret.
  explicit TlsChannels(std::vector<WatchedFile> files = {},
                       Prove prove = nullptr)
      : files_(std::move(files)), prove_(std::move(prove)) {}

  // Returns the files whose texts Load takes, in its order; none in plain text.
  const std::vector<WatchedFile>& files() const { return files_; }
  // Checks the texts of `files()`, and makes the channels from now on by them.
  // A certificate that has expired, or is not valid yet, is refused, unless it
  // is the first. Errors: InvalidArgument, naming the option; then the texts
  // that were loaded last stay.
  absl::Status Load(const std::vector<FileText>& texts);

  // Returns a channel to the process at `address`, without connecting: the same
  // one for as long as somebody keeps it and no other texts were loaded.
  // REQUIRES: Load has succeeded, unless in plain text.
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);
  // Returns the secret that was loaded last, without white space around it;
  // empty if there is none.
  std::string secret() const;

 private:
  const std::vector<WatchedFile> files_;
  const Prove prove_;
  mutable Mutex mutex_;
  // Null before the first.
  std::shared_ptr<grpc::ChannelCredentials> credentials_
      ABSL_GUARDED_BY(mutex_);
  std::string secret_ ABSL_GUARDED_BY(mutex_);
  // The channels made with these credentials.
  std::map<std::string, std::weak_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_TLS_CHANNELS_H_
