// How a server connects to the others of its cluster.

#ifndef TENSORKV_SERVICE_SERVER_PEER_CHANNEL_H_
#define TENSORKV_SERVICE_SERVER_PEER_CHANNEL_H_

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "service/server/server_options.h"

namespace tensorkv {

// A connection to that server: over TLS where the server itself takes TLS, with
// its own certificate, and else in plain text. The files are read now; one that
// cannot be read counts as empty, and the other server says what is missing.
// REQUIRES: the options have a cluster.
std::shared_ptr<grpc::Channel> PeerChannel(const ServerOptions& options,
                                           const std::string& address);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_PEER_CHANNEL_H_
