#include "service/rpc/open_streams.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(OpenStreamsTest, OpensUpToTheLimit) {
  OpenStreams streams(2);

  EXPECT_TRUE(streams.Open());
  EXPECT_TRUE(streams.Open());
  EXPECT_FALSE(streams.Open());
  EXPECT_EQ(streams.num_open(), 2u);
}

TEST(OpenStreamsTest, OneThatClosesMakesRoom) {
  OpenStreams streams(1);
  ASSERT_TRUE(streams.Open());
  ASSERT_FALSE(streams.Open());

  streams.Close();

  EXPECT_TRUE(streams.Open());
}

}  // namespace
}  // namespace tensorkv
