// Opens channels, all with the same pace of connecting and of pings.

#ifndef TENSORKV_CHANNELS_OPEN_CHANNEL_H_
#define TENSORKV_CHANNELS_OPEN_CHANNEL_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace tensorkv {

// ChannelSecurity protects a channel for as long as it is open.
struct ChannelSecurity {
  // Plain text unless something else is put here.
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  // Expected in the server's certificate; empty is the target's.
  std::string server_name;
};

// Returns the arguments that every channel has in common: it has a connection
// of its own, finds a server that comes back within seconds, and notices one
// whose machine is gone.
grpc::ChannelArguments MakeChannelArguments();

// Opens a channel to `target`, any gRPC target. It connects at the first call.
// `arguments` are those of MakeChannelArguments, with what is added to them.
std::shared_ptr<grpc::Channel> OpenChannelWith(
    grpc::ChannelArguments arguments, const std::string& target,
    const ChannelSecurity& security = {});

}  // namespace tensorkv

#endif  // TENSORKV_CHANNELS_OPEN_CHANNEL_H_
