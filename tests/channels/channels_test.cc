#include "channels/channels.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace channels_test {

using testing::Authority;

// Nobody listens there; channels connect only when they are used.
constexpr char kAddress[] = "127.0.0.1:1";

TEST(ChannelsTest, ChannelToAnAddressIsShared) {
  Channels channels;
  auto channel = channels.ChannelTo(kAddress);

  EXPECT_EQ(channels.ChannelTo(kAddress), channel);
  EXPECT_NE(channels.ChannelTo("127.0.0.1:2"), channel);
}

TEST(ChannelsTest, ChannelThatNobodyKeepsIsClosed) {
  Channels channels;
  const std::weak_ptr<grpc::Channel> channel = channels.ChannelTo(kAddress);

  EXPECT_TRUE(channel.expired());
}

TEST(ChannelsTest, OtherCredentialsHaveOtherChannels) {
  const Authority first("a"), second("b");
  Channels channels({.files = std::vector<WatchedFile>(4)});
  const auto load = [&](const std::string& authorities) {
    return channels.credentials().Load({{}, {}, {"ca", "/", authorities}, {}});
  };
  ASSERT_OK(load(first.certificate()));
  const auto channel = channels.ChannelTo(kAddress);

  EXPECT_FALSE(load("").ok());
  EXPECT_EQ(channels.ChannelTo(kAddress), channel);
  ASSERT_OK(load(second.certificate()));
  EXPECT_NE(channels.ChannelTo(kAddress), channel);
}

}  // namespace channels_test
}  // namespace tensorkv
