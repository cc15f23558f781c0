// A connection whose credentials may be replaced.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_RENEWED_CONNECTION_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_RENEWED_CONNECTION_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/calls/task.h"
#include "client/internal/transfer/channel_security.h"
#include "client/internal/transfer/grpc_connection.h"

namespace tensorkv {

// Makes calls by a GrpcConnection that has what the files of the credentials
// say when the call begins. Calls that are under way when they change end as
// they began. Thread-safe.
class RenewedConnection final : public TaskConnection {
 public:
  // REQUIRES: GrpcConnection takes the options.
  RenewedConnection(GrpcConnectionOptions options,
                    std::shared_ptr<const WatchedCredentials> credentials);

  bool CastsAsItSends() const override { return true; }

 private:
  Task<absl::Status> Make(AnyCall call, CallOptions options,
                          CallThreads* threads) override;
  // Returns the connection with the current credentials, which it opens first
  // where they have changed.
  std::shared_ptr<GrpcConnection> Current();

  const GrpcConnectionOptions options_;
  const std::shared_ptr<const WatchedCredentials> credentials_;
  Mutex mutex_;
  // The credentials with which connection_ was opened.
  std::shared_ptr<grpc::ChannelCredentials> used_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<GrpcConnection> connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_RENEWED_CONNECTION_H_
