#include "service/server/grpc_limits.h"

#include <sys/resource.h>

#include <algorithm>

#include "grpcpp/resource_quota.h"

namespace tensorkv {
namespace {

// A status message takes up to 6 KiB of a client's limit; ours is for what
// clients send: deadlines, user agents, tokens.
constexpr int kMaxMetadataBytes = 16 * 1024;
constexpr int kHandshakeTimeoutMs = 10'000;
// Finds dead peers, and lets gRPC measure the bandwidth-delay product: it
// waits half of this between its probes.
constexpr int kKeepaliveTimeMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Says how often clients may ping.
constexpr int kMinPingIntervalMs = 10'000;
// So much of a stream's messages gRPC takes ahead of sending them; they are
// references, so this costs no memory.
constexpr int kWriteBufferBytes = 8 << 20;
constexpr int kMaxReflectionThreads = 16;
constexpr int kMaxConnectionIdleMs = 30 * 60 * 1000;

void DisableCompression(grpc::ServerBuilder* builder) {
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

}  // namespace

void ApplyLimits(const ServerOptions& options, grpc::ServerBuilder* builder) {
  DisableCompression(builder);
  builder->SetMaxReceiveMessageSize(
      static_cast<int>(options.max_message_bytes));
  const auto set = [&](const char* argument, int value) {
    builder->AddChannelArgument(argument, value);
  };
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.max_streams));
  set(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kMinPingIntervalMs);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBufferBytes);
  // Two servers on one port would share its connections without a word.
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  set(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // Only reflection uses gRPC's synchronous threads, one per stream. The quota
  // bounds no memory: 1.51 shrinks its windows long before a quota is reached.
  grpc::ResourceQuota quota("tensorkv");
  quota.SetMaxThreads(kMaxReflectionThreads);
  builder->SetResourceQuota(quota);
  builder->SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

uint32_t MaxConnections(const ServerOptions& options) {
  constexpr rlim_t kOthers = 128;
  if (options.max_connections > 0) return options.max_connections;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t left = limit.rlim_cur - std::min(kOthers, limit.rlim_cur / 2);
  return static_cast<uint32_t>(std::min<rlim_t>(left, 1 << 20));
}

}  // namespace tensorkv
