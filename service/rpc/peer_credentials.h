// Reads what gRPC tells of a caller.

#ifndef TENSORKV_SERVICE_RPC_PEER_CREDENTIALS_H_
#define TENSORKV_SERVICE_RPC_PEER_CREDENTIALS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "service/security/identity.h"

namespace tensorkv {

// Returns what the connection of a call and its metadata prove.
Peer PeerOf(const grpc::ServerContextBase& context);

// Returns what stands for the host in an address, as ServerContext::peer gives
// it: whoever has an IPv6 address can have all of its network of 64 bits.
// "10.0.0.7", "2001:db8::".
std::string PeerHostOf(absl::string_view peer_address);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_PEER_CREDENTIALS_H_
