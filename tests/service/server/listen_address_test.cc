#include "service/server/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// A port of 127.0.0.1 that somebody listens on.
class TakenPort {
 public:
  TakenPort() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    listen(fd_, 1);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(fd_); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int fd_;
  int port_ = 0;
};

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

TEST(ListenFailureTest, SaysThatThePortIsTaken) {
  const TakenPort taken;

  EXPECT_EQ(ListenFailure(taken.address()), "Address already in use");
}

TEST(ListenFailureTest, SaysThatTheAddressIsNotOfThisMachine) {
  // Of the block for documentation, RFC 5737.
  EXPECT_EQ(ListenFailure("192.0.2.1:0"), "Cannot assign requested address");
}

TEST(ListenFailureTest, SaysNothingWhereItCannotTell) {
  EXPECT_EQ(ListenFailure("127.0.0.1:0"), "");
  EXPECT_EQ(ListenFailure("example.org:80"), "");
  EXPECT_EQ(ListenFailure("unix-abstract:name"), "");
}

TEST(ListenFailureTest, SaysWhatIsWrongWithASocketsPath) {
  EXPECT_EQ(ListenFailure("unix:/no/such/directory/socket"),
            "No such file or directory");
  EXPECT_EQ(ListenFailure("unix:/tmp/" + std::string(108, 'x')),
            "File name too long");
}

}  // namespace
}  // namespace tensorkv
