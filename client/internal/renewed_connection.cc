#include "client/internal/renewed_connection.h"

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

absl::Status RenewedConnection::Attempt(const AnyCall& call,
                                        const CallOptions& options) {
  const std::shared_ptr<GrpcConnection> connection = Current();
  absl::Status status = connection->Attempt(call, options);
  return status.ok() ? status : WithFiles(status, *credentials_);
}

void RenewedConnection::Start(const AnyCall& call, const CallOptions& options,
                              CallThreads& threads, Done done) {
  std::shared_ptr<GrpcConnection> connection = Current();
  GrpcConnection& used = *connection;
  // The connection goes with the callback, after `done` has run.
  used.Start(call, options, threads,
             [connection = std::move(connection), credentials = credentials_,
              done = std::move(done)](absl::Status status) mutable {
               if (!status.ok()) status = WithFiles(status, *credentials);
               std::move(done)(std::move(status));
             });
}

}  // namespace tensorkv
