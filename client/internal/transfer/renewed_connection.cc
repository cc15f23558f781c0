#include "client/internal/transfer/renewed_connection.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv {
namespace {

GrpcConnectionOptions WithServer(GrpcConnectionOptions options) {
  if (options.server == nullptr) {
    options.server = std::make_shared<ServerIncarnation>();
  }
  return options;
}

// Where the server does not take who this is, or there is no connection, files
// that could not be taken over may be why.
absl::Status WithFiles(const absl::Status& status,
                       const WatchedCredentials& credentials) {
  if (!absl::IsUnavailable(status) && !absl::IsUnauthenticated(status)) {
    return status;
  }
  const absl::Status files = credentials.status();
  if (files.ok()) return status;
  absl::Status told(status.code(),
                    absl::StrCat(status.message(), " (", files.message(),
                                 "; what was there before is used)"));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    told.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return told;
}

}  // namespace

RenewedConnection::RenewedConnection(
    GrpcConnectionOptions options,
    std::shared_ptr<const WatchedCredentials> credentials)
    : options_(WithServer(std::move(options))),
      credentials_(std::move(credentials)) {}

std::shared_ptr<GrpcConnection> RenewedConnection::Current() {
  // The connection that calls have used until now is destroyed without the
  // lock.
  std::shared_ptr<GrpcConnection> former;
  MutexLock lock(&mutex_);
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      credentials_->current();
  if (credentials != used_) {
    former = std::exchange(
        connection_,
        GrpcConnection::Open(
            options_, {.credentials = credentials,
                       .server_name = options_.credentials.tls_server_name}));
    used_ = std::move(credentials);
  }
  return connection_;
}

Task<absl::Status> RenewedConnection::Make(AnyCall call, CallOptions options,
                                           CallThreads* threads) {
  const std::shared_ptr<GrpcConnection> connection = Current();
  absl::Status status = co_await MadeCall(*connection, call, options, threads);
  co_return status.ok() ? status : WithFiles(status, *credentials_);
}

}  // namespace tensorkv
