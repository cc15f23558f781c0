#include "client/internal/transfer/channel_pool.h"

#include <memory>
#include <optional>
#include <set>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Nobody listens there; channels connect only when they are used.
constexpr char kTarget[] = "127.0.0.1:1";

std::set<grpc::Channel*> ChannelsOf(const ChannelPool::Lease& lease) {
  std::set<grpc::Channel*> channels;
  for (size_t i = 0; i < lease.size(); ++i) {
    channels.insert(lease.channel(i).get());
  }
  return channels;
}

class ChannelPoolTest : public ::testing::Test {
 protected:
  ChannelPool pool_{kTarget, /*max_message_bytes=*/1 << 20, /*num_bulk=*/3};
};

TEST_F(ChannelPoolTest, ChannelsOfALeaseAreDifferentAndNotTheSmallOne) {
  const std::set<grpc::Channel*> channels = ChannelsOf(pool_.BorrowBulk(3));

  EXPECT_EQ(channels.size(), 3);
  EXPECT_EQ(channels.count(pool_.small().get()), 0);
}

TEST_F(ChannelPoolTest, LoansAreSpread) {
  const ChannelPool::Lease first = pool_.BorrowBulk(1);
  const ChannelPool::Lease second = pool_.BorrowBulk(1);
  const ChannelPool::Lease third = pool_.BorrowBulk(1);

  std::set<grpc::Channel*> channels = ChannelsOf(first);
  channels.merge(ChannelsOf(second));
  channels.merge(ChannelsOf(third));
  EXPECT_EQ(channels.size(), 3);
}

TEST_F(ChannelPoolTest, ChannelsThatWereReturnedAreTakenFirst) {
  const ChannelPool::Lease all = pool_.BorrowBulk(3);
  std::optional<ChannelPool::Lease> second(pool_.BorrowBulk(2));
  const std::set<grpc::Channel*> returned = ChannelsOf(*second);
  const ChannelPool::Lease third = pool_.BorrowBulk(1);

  second.reset();

  EXPECT_EQ(ChannelsOf(pool_.BorrowBulk(2)), returned);
}

TEST_F(ChannelPoolTest, MovedLeaseIsReturnedOnce) {
  {
    ChannelPool::Lease lease = pool_.BorrowBulk(1);
    const ChannelPool::Lease moved = std::move(lease);
    EXPECT_EQ(moved.size(), 1);
  }

  const ChannelPool::Lease first = pool_.BorrowBulk(1);
  EXPECT_NE(ChannelsOf(pool_.BorrowBulk(1)), ChannelsOf(first));
}

}  // namespace
}  // namespace tensorkv
