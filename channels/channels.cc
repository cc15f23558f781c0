#include "channels/channels.h"

#include "channels/open_channel.h"

namespace tensorkv {

std::shared_ptr<grpc::Channel> Channels::ChannelTo(const std::string& address) {
  MutexLock lock(&mutex_);
  auto current = credentials_.current();
  if (std::exchange(used_, current) != current) by_address_.clear();
  std::weak_ptr<grpc::Channel>& known = by_address_[address];
  std::shared_ptr<grpc::Channel> channel = known.lock();
  if (channel == nullptr) {
    channel = OpenChannelWith(MakeChannelArguments(), address,
                              {.credentials = std::move(current)});
    known = channel;
  }
  return channel;
}

}  // namespace tensorkv
