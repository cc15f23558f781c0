#include "client/internal/transfer/grpc_channel.h"

#include <utility>

#include "client/internal/transfer/received_memory.h"

namespace tensorkv {
namespace {

// Bytes of a stream that gRPC takes before a write waits. The parts under way
// are referenced, not copied, so this costs no memory; with less, the next part
// would be handed over only after the one before has left.
constexpr int kBulkWriteBufferBytes = 8 << 20;
// The first guess of how much one read brings; gRPC adapts it from there.
constexpr int kBulkReadChunkBytes = 1 << 20;

// Returns the arguments of every channel of a client.
grpc::ChannelArguments ArgumentsFor(size_t max_message_bytes) {
  KeepReceivedMemory();
  grpc::ChannelArguments arguments = MakeChannelArguments();
  arguments.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  // RetryingConnection knows what may be repeated, and for how long.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CENSUS, 0);
  // Tensors do not compress; without this each message is looked at.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           size_t max_message_bytes,
                                           const ChannelSecurity& security) {
  return OpenChannelWith(ArgumentsFor(max_message_bytes), target, security);
}

std::shared_ptr<grpc::Channel> OpenBulkChannel(
    const std::string& target, size_t max_message_bytes,
    const ChannelSecurity& security) {
  grpc::ChannelArguments arguments = ArgumentsFor(max_message_bytes);
  arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kBulkWriteBufferBytes);
  arguments.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, kBulkReadChunkBytes);
  return OpenChannelWith(std::move(arguments), target, security);
}

}  // namespace tensorkv
