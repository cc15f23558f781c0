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

// Reads the files, if TLS is on, and checks that they fit together; blocks.
// Errors: InvalidArgument, naming the option: a file that cannot be read or has
// nothing of that kind, a key that is not the certificate's.
absl::Status CheckTlsFiles(const TlsOptions& options);

// The certificate by which a server is known, its key, and the authorities of
// its clients, as they are now. Thread-safe.
class ServerCertificates {
 public:
  // Returns the files in the order in which Load takes their texts.
  static std::vector<WatchedFile> FilesOf(const TlsOptions& options);

  // Checks the texts, and has them count for the handshakes that begin from now
  // on. A certificate that has expired, or is not valid yet, is refused, unless
  // it is the first. Errors: InvalidArgument, naming the option; then the texts
  // that were loaded last stay.
  absl::Status Load(const std::vector<FileText>& texts);

  // Returns the texts that were loaded last; null before the first.
  std::shared_ptr<const TlsTexts> current() const;
  // Returns when the certificate expires; the epoch before the first.
  absl::Time expiry() const;

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const TlsTexts> current_ ABSL_GUARDED_BY(mutex_);
  absl::Time expiry_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
};

// Returns credentials for one port, which use what `certificates` have at each
// handshake; those of plain text if TLS is off. Clients' certificates are
// verified in the handshake. REQUIRES: certificates were loaded, if TLS is on;
// one thread at a time hands connections to gRPC.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const TlsOptions& options,
    std::shared_ptr<const ServerCertificates> certificates);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_
