#include "bench/data_path/sockets/socket.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Sends a byte from one end of a connection to the other.
void ExpectConnected(const Socket& from, const Socket& to) {
  char received = 0;
  ASSERT_EQ(write(from.fd(), "x", 1), 1);
  ASSERT_EQ(read(to.fd(), &received, 1), 1);
  EXPECT_EQ(received, 'x');
}

void ExpectListens(const std::string& address) {
  ASSERT_OK_AND_ASSIGN(const Socket listener, ListenOn(address));
  ASSERT_OK_AND_ASSIGN(const std::string taken, AddressOf(listener));
  ASSERT_OK_AND_ASSIGN(const Socket client, ConnectTo(taken));
  ASSERT_OK_AND_ASSIGN(const Socket server, AcceptFrom(listener));

  ExpectConnected(client, server);
  ExpectConnected(server, client);
}

TEST(SocketTest, ConnectsOverTcp) { ExpectListens("127.0.0.1:0"); }

TEST(SocketTest, ConnectsOverAUnixSocket) {
  const std::string path = absl::StrCat("/tmp/tensorkv_socket_test.", getpid());

  ExpectListens(absl::StrCat("unix:", path));

  unlink(path.c_str());
}

TEST(SocketTest, AUnixSocketHasItsPathForAnAddress) {
  const std::string address =
      absl::StrCat("unix:/tmp/tensorkv_socket_test.address.", getpid());
  ASSERT_OK_AND_ASSIGN(const Socket listener, ListenOn(address));

  EXPECT_THAT(AddressOf(listener), IsOkAndHolds(address));

  unlink(address.substr(5).c_str());
}

TEST(SocketTest, AFreeAddressHasAPortAndNobodyListens) {
  ASSERT_OK_AND_ASSIGN(const std::string address, FreeLoopbackAddress());

  EXPECT_THAT(address, StartsWith("127.0.0.1:"));
  EXPECT_THAT(address, Not(StartsWith("127.0.0.1:0")));
  EXPECT_THAT(ConnectTo(address),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
}

TEST(SocketTest, OtherAddressesAreInvalid) {
  for (const std::string& address :
       {std::string("localhost:80"), std::string("127.0.0.1:70000"),
        std::string("127.0.0.1:"), std::string("unix:"),
        absl::StrCat("unix:/", std::string(200, 'x'))}) {
    EXPECT_THAT(ConnectTo(address),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << address;
  }
}

}  // namespace
}  // namespace tensorkv::bench
