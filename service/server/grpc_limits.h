// Says how gRPC is set up to serve: limits, keepalive.

#ifndef TENSORKV_SERVICE_SERVER_GRPC_LIMITS_H_
#define TENSORKV_SERVICE_SERVER_GRPC_LIMITS_H_

#include "grpcpp/server_builder.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Bounds what one message, one connection and one handshake may take, and
// turns off what nobody asked for (compression, channelz, shared ports).
void ApplyLimits(const ServerOptions& options, grpc::ServerBuilder* builder);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_GRPC_LIMITS_H_
