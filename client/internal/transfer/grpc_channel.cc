#include "client/internal/transfer/grpc_channel.h"

#include <utility>

#include "client/internal/transfer/received_memory.h"
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

// Bytes of a stream that gRPC takes before a write waits. The parts under way
// are referenced, not copied, so this costs no memory; with less, the next part
// would be handed over only after the one before has left.
constexpr int kBulkWriteBufferBytes = 8 << 20;
// The first guess of how much one read brings; gRPC adapts it from there.
constexpr int kBulkReadChunkBytes = 1 << 20;

std::shared_ptr<grpc::Channel> Open(const std::string& target,
                                    const ChannelSecurity& security,
                                    grpc::ChannelArguments arguments) {
  KeepGrpc();
  KeepReceivedMemory();
  if (!security.server_name.empty()) {
    arguments.SetSslTargetNameOverride(security.server_name);
  }
  return grpc::CreateCustomChannel(target, security.credentials, arguments);
}

}  // namespace

grpc::ChannelArguments MakeChannelArguments(size_t max_message_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // RetryingConnection knows what may be repeated, and for how long.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CENSUS, 0);
  // Tensors do not compress; without this each message is looked at.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // A call that waits sends nothing, and gRPC would stop after two pings: a
  // server that is gone would be noticed only at the call's deadline.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   kInitialReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  return arguments;
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           size_t max_message_bytes,
                                           const ChannelSecurity& security) {
  return Open(target, security, MakeChannelArguments(max_message_bytes));
}

std::shared_ptr<grpc::Channel> OpenBulkChannel(
    const std::string& target, size_t max_message_bytes,
    const ChannelSecurity& security) {
  grpc::ChannelArguments arguments = MakeChannelArguments(max_message_bytes);
  arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kBulkWriteBufferBytes);
  arguments.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, kBulkReadChunkBytes);
  return Open(target, security, std::move(arguments));
}

}  // namespace tensorkv
