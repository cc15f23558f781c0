// Says how gRPC is set up to serve: connections, limits, keepalive.

#ifndef TENSORKV_SERVICE_SERVER_GRPC_LIMITS_H_
#define TENSORKV_SERVICE_SERVER_GRPC_LIMITS_H_

#include <cstdint>

#include "grpcpp/server_builder.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Bounds what one message, one connection and one handshake may take, and
// turns off what nobody asked for (compression, channelz, shared ports).
void ApplyLimits(const ServerOptions& options, grpc::ServerBuilder* builder);

// Returns how many connections the server takes: as the options say, or as many
// as descriptors are left beyond those for the metrics, the log, devices and
// the like.
uint32_t MaxConnections(const ServerOptions& options);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_GRPC_LIMITS_H_
