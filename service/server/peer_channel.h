// How a server connects to the others of its cluster.

#ifndef TENSORKV_SERVICE_SERVER_PEER_CHANNEL_H_
#define TENSORKV_SERVICE_SERVER_PEER_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Whether the files that PeerChannel reads are there, and are what they are to
// be. Errors: InvalidArgument, naming the option.
absl::Status CheckPeerFiles(const ServerOptions& options);

// A connection to that server: over TLS where the server itself takes TLS, with
// its own certificate, and else in plain text. The files are read now. One that
// cannot be read counts as empty, and the other server says what is missing;
// without the authorities all calls fail.
// REQUIRES: the options have a cluster.
std::shared_ptr<grpc::Channel> PeerChannel(const ServerOptions& options,
                                           const std::string& address);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_PEER_CHANNEL_H_
