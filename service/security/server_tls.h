// TLS for a server.

#ifndef TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_
#define TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/pem.h"
#include "base/watched_files.h"
#include "grpcpp/security/server_credentials.h"
#include "service/security/tls_options.h"

namespace tensorkv {

// Checks that the files are there and fit together. Errors: InvalidArgument,
// naming the option: a file that cannot be read or has nothing of that kind, a
// key that is not the certificate's.
absl::Status CheckTlsFiles(const TlsOptions& options);

// The certificate by which a server is known, its key, and the authorities of
// its clients, as they are now. Thread-safe.
class ServerCertificates {
 public:
  // Returns the files in the order in which Take takes them.
  static std::vector<WatchedFile> FilesOf(const TlsOptions& options);

  // Checks the texts, and has them count for the handshakes that begin from now
  // on. A certificate whose time is over, or has not come, does not take the
  // place of another.
  // Errors: InvalidArgument, naming the option.
  absl::Status Take(const std::vector<FileText>& texts);

  // Returns null before the first.
  std::shared_ptr<const TlsTexts> current() const;
  // Returns the time at which the certificate counts no more.
  absl::Time expiry() const;

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const TlsTexts> current_ ABSL_GUARDED_BY(mutex_);
  absl::Time expiry_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
};

// Credentials for one port that follow `certificates`; those of plain text if
// TLS is off. Clients' certificates are verified in the handshake.
// REQUIRES: certificates have been taken; one thread at a time hands
// connections to gRPC.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const TlsOptions& options,
    std::shared_ptr<const ServerCertificates> certificates);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_
