// Connects a process to others, by files that may change.

#ifndef TENSORKV_CHANNELS_CHANNELS_H_
#define TENSORKV_CHANNELS_CHANNELS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "channels/file_credentials.h"
#include "grpcpp/channel.h"

namespace tensorkv {

// Channels to processes of one kind: the other servers of the cluster, or etcd.
// Thread-safe.
class Channels {
 public:
  explicit Channels(FileCredentials::Options options = {})
      : credentials_(std::move(options)) {}

  // Channels that are asked for after others were loaded have those.
  FileCredentials& credentials() { return credentials_; }

  // Returns a channel to the process at `address`, without connecting: the same
  // one for as long as somebody keeps it and the credentials are the same.
  // REQUIRES: credentials were loaded, unless in plain text.
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

 private:
  FileCredentials credentials_;
  Mutex mutex_;
  // The credentials of the channels in by_address_.
  std::shared_ptr<grpc::ChannelCredentials> used_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<grpc::Channel>> by_address_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CHANNELS_CHANNELS_H_
