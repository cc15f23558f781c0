// TLS for a server.

#ifndef TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_
#define TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "service/security/tls_options.h"

namespace tensorkv {

// Whether the files are there and fit together.
// Errors: InvalidArgument, naming the option: a file that cannot be read or has
// nothing of that kind, a key that is not the certificate's.
absl::Status CheckTlsFiles(const TlsOptions& options);

// Whether the file begins with a certificate, as that of an authority.
// Errors: InvalidArgument, naming the option.
absl::Status CheckAuthorities(absl::string_view option,
                              const std::string& path);

// Credentials that follow the files by gRPC's own watcher, on a thread of its
// own; those of plain text if TLS is off. Clients' certificates are verified in
// the handshake.
//
// While the certificate and the key in the files do not fit together, new
// connections fail.
//
// Errors: those of CheckTlsFiles.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& options);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_SERVER_TLS_H_
