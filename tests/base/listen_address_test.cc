#include "base/listen_address.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

class LocalAddressTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LocalAddressTest, IsLocal) {
  EXPECT_TRUE(IsLocalAddress(GetParam()));
  EXPECT_TRUE(IsListenAddress(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Addresses, LocalAddressTest,
                         ::testing::Values("127.0.0.1:7363", "127.1.2.3:0",
                                           "localhost:7363", "[::1]:7363",
                                           "unix:/run/tensorkv.sock",
                                           "unix-abstract:tensorkv"));

class RemoteAddressTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RemoteAddressTest, IsNotLocal) {
  EXPECT_FALSE(IsLocalAddress(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Addresses, RemoteAddressTest,
                         ::testing::Values("0.0.0.0:7363", "[::]:7363",
                                           "10.0.0.4:7363", "*:7363", ":7363",
                                           "example.org:7363",
                                           "127.0.0.1.example.org:7363",
                                           "localhost.example.org:7363"));

class NoAddressTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NoAddressTest, IsNoAddressAndNotLocal) {
  EXPECT_FALSE(IsListenAddress(GetParam()));
  EXPECT_FALSE(IsNumericAddress(GetParam()));
  EXPECT_FALSE(IsLocalAddress(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Addresses, NoAddressTest,
                         ::testing::Values("", "7363", "localhost",
                                           "127.0.0.1:", "127.0.0.1:port",
                                           "127.0.0.1:65536", "127.0.0.1:-1"));

TEST(NumericAddressTest, NamesAndSocketsAreNotNumeric) {
  EXPECT_TRUE(IsNumericAddress("127.0.0.1:0"));
  EXPECT_TRUE(IsNumericAddress("[::1]:80"));
  EXPECT_FALSE(IsNumericAddress("localhost:80"));
  EXPECT_FALSE(IsNumericAddress("unix:/path"));
}

TEST(WithPortTest, ReplacesThePortOnly) {
  EXPECT_EQ(WithPort("127.0.0.1:0", 41), "127.0.0.1:41");
  EXPECT_EQ(WithPort("[::1]:0", 41), "[::1]:41");
  EXPECT_EQ(WithPort("unix:/path", 41), "unix:/path");
}

}  // namespace
}  // namespace tensorkv
