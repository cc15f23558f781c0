#include "channels/open_channel.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace open_channel_test {

using ::testing::Contains;
using ::testing::Pair;

TEST(MakeChannelArgumentsTest, PacesConnectingAndPings) {
  const grpc::ChannelArguments made = MakeChannelArguments();
  const grpc_channel_args all = made.c_channel_args();
  std::map<std::string, int> values;
  for (size_t i = 0; i < all.num_args; ++i) {
    if (all.args[i].type != GRPC_ARG_INTEGER) continue;
    values[all.args[i].key] = all.args[i].value.integer;
  }

  // Pings go on as long as a call waits.
  EXPECT_THAT(values, Contains(Pair("grpc.http2.max_pings_without_data", 0)));
  EXPECT_THAT(values, Contains(Pair("grpc.keepalive_time_ms", 20'000)));
  // Both together are how long a server that is back may stay unnoticed.
  EXPECT_THAT(values, Contains(Pair("grpc.max_reconnect_backoff_ms", 1'000)));
  EXPECT_THAT(values, Contains(Pair("grpc.min_reconnect_backoff_ms", 5'000)));
}

}  // namespace open_channel_test
}  // namespace tensorkv
