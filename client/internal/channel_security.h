// What protects a client's channels.

#ifndef TENSORKV_CLIENT_INTERNAL_CHANNEL_SECURITY_H_
#define TENSORKV_CLIENT_INTERNAL_CHANNEL_SECURITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/credentials.h"
#include "grpcpp/security/credentials.h"

namespace tensorkv {

// Copies share one watcher of the files; channels keep it alive.
struct ChannelSecurity {
  // Plain text unless something else is put here.
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  // Expected in the server's certificate; empty is the target's.
  std::string server_name;
};

// Reads the files, and keeps an eye on those of TLS.
// Errors: InvalidArgument, naming the option: a file that cannot be read, a
// certificate without its key, TLS options without tls_ca or for a Unix socket,
// a token for a target that would get it in plain text.
absl::StatusOr<ChannelSecurity> MakeChannelSecurity(
    const Credentials& credentials, const std::string& target);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CHANNEL_SECURITY_H_
