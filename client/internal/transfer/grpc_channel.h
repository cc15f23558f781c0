// Channels as every client of this library opens them.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_GRPC_CHANNEL_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_GRPC_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "channels/open_channel.h"
#include "grpcpp/channel.h"

namespace tensorkv {

// A server takes messages of this length by default.
inline constexpr size_t kDefaultMaxMessageBytes = size_t{64} << 20;

// Opens a channel to `target`, any gRPC target. It connects at the first call.
// Each channel has a connection of its own. Messages above `max_message_bytes`
// are refused when they arrive: ResourceExhausted.
// REQUIRES: max_message_bytes <= INT_MAX.
std::shared_ptr<grpc::Channel> OpenChannel(
    const std::string& target,
    size_t max_message_bytes = kDefaultMaxMessageBytes,
    const ChannelSecurity& security = {});

// Opens a channel for streams of large messages.
std::shared_ptr<grpc::Channel> OpenBulkChannel(
    const std::string& target, size_t max_message_bytes,
    const ChannelSecurity& security = {});

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_GRPC_CHANNEL_H_
