#include "channels/open_channel.h"

#include "contract/keep_grpc.h"
#include "grpcpp/create_channel.h"

namespace tensorkv {
namespace {

// Twice the shortest interval that our server allows between pings.
constexpr int kKeepaliveTimeMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

// gRPC's own bounds, 1 s and 2 min, are too slow for a server that restarts.
constexpr int kInitialReconnectBackoffMs = 100;
constexpr int kMaxReconnectBackoffMs = 1'000;
// gRPC calls it the least backoff: an attempt to connect is given up after that
// long. Its own 20 s are too slow for a machine that comes back, since the
// system sends what asks for a connection at ever longer intervals.
constexpr int kConnectTimeoutMs = 5'000;

}  // namespace

grpc::ChannelArguments MakeChannelArguments() {
  grpc::ChannelArguments arguments;
  // Connections made with other credentials are not used.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // A call that waits sends nothing, and gRPC would stop after two pings: a
  // server that is gone would be noticed only at the call's deadline.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   kInitialReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  return arguments;
}

std::shared_ptr<grpc::Channel> OpenChannelWith(
    grpc::ChannelArguments arguments, const std::string& target,
    const ChannelSecurity& security) {
  KeepGrpc();
  if (!security.server_name.empty()) {
    arguments.SetSslTargetNameOverride(security.server_name);
  }
  return grpc::CreateCustomChannel(target, security.credentials, arguments);
}

}  // namespace tensorkv
