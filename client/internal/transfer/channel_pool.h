// A client's connections to its server.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_CHANNEL_POOL_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_CHANNEL_POOL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "channels/open_channel.h"
#include "client/internal/transfer/server_incarnation.h"
#include "grpcpp/channel.h"

namespace tensorkv {

// One connection for small calls and some for streams, which would make small
// calls wait: a connection sends and receives under one lock. Each connects
// when it is first used. Thread-safe.
class ChannelPool {
 public:
  // Bulk channels on loan, until this is destroyed. The pool outlives it.
  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : pool_(other.pool_), indices_(std::exchange(other.indices_, {})) {}
    ~Lease() { pool_.Return(indices_); }

    size_t size() const { return indices_.size(); }
    const std::shared_ptr<grpc::Channel>& channel(size_t i) const {
      return pool_.bulk_[indices_[i]];
    }

   private:
    friend class ChannelPool;
    Lease(ChannelPool& pool, std::vector<size_t> indices)
        : pool_(pool), indices_(std::move(indices)) {}

    ChannelPool& pool_;
    std::vector<size_t> indices_;
  };

  // `server` keeps what the calls learn of the server. REQUIRES: num_bulk > 0;
  // max_message_bytes <= INT_MAX.
  ChannelPool(const std::string& target, size_t max_message_bytes, int num_bulk,
              const ChannelSecurity& security = {},
              std::shared_ptr<ServerIncarnation> server =
                  std::make_shared<ServerIncarnation>());

  // Returns the channel for everything but streams.
  const std::shared_ptr<grpc::Channel>& small() const { return small_; }

  // Returns what the calls on these channels know of the server.
  ServerIncarnation& server() { return *server_; }

  int num_bulk() const { return static_cast<int>(bulk_.size()); }
  // Returns the `count` bulk channels with the fewest loans, all different.
  // Never waits: a channel may be on several loans.
  // REQUIRES: count <= num_bulk.
  Lease BorrowBulk(int count);

 private:
  void Return(const std::vector<size_t>& indices);

  const std::shared_ptr<grpc::Channel> small_;
  std::vector<std::shared_ptr<grpc::Channel>> bulk_;  // const once built
  const std::shared_ptr<ServerIncarnation> server_;

  Mutex mutex_;
  // By channel, how often it is on loan.
  std::vector<int> num_loans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_CHANNEL_POOL_H_
