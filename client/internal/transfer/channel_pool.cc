#include "client/internal/transfer/channel_pool.h"

#include <algorithm>
#include <numeric>

#include "client/internal/transfer/grpc_channel.h"

namespace tensorkv {

ChannelPool::ChannelPool(const std::string& target, size_t max_message_bytes,
                         int num_bulk, const ChannelSecurity& security,
                         std::shared_ptr<ServerIncarnation> server)
    : small_(OpenChannel(target, max_message_bytes, security)),
      server_(std::move(server)),
      num_loans_(num_bulk) {
  for (int i = 0; i < num_bulk; ++i) {
    bulk_.push_back(OpenBulkChannel(target, max_message_bytes, security));
  }
}

ChannelPool::Lease ChannelPool::BorrowBulk(int count) {
  std::vector<size_t> indices(bulk_.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  MutexLock lock(&mutex_);
  std::stable_sort(indices.begin(), indices.end(), [this](size_t a, size_t b) {
    return num_loans_[a] < num_loans_[b];
  });
  indices.resize(count);
  for (const size_t index : indices) ++num_loans_[index];
  return Lease(*this, std::move(indices));
}

void ChannelPool::Return(const std::vector<size_t>& indices) {
  MutexLock lock(&mutex_);
  for (const size_t index : indices) --num_loans_[index];
}

}  // namespace tensorkv
