#include "bench/data_path/sockets/socket.h"

#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

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
void ExpectConnected(const FileDescriptor& from, const FileDescriptor& to) {
  char received = 0;
  ASSERT_EQ(write(from.get(), "x", 1), 1);
  ASSERT_EQ(read(to.get(), &received, 1), 1);
  EXPECT_EQ(received, 'x');
}

void ExpectListens(const std::string& address) {
  ASSERT_OK_AND_ASSIGN(const FileDescriptor listener, ListenOn(address));
  ASSERT_OK_AND_ASSIGN(const std::string taken, AddressOf(listener.get()));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor client, ConnectTo(taken));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor server, AcceptFrom(listener.get()));

  ExpectConnected(client, server);
  ExpectConnected(server, client);
}

TEST(SocketTest, BytesArriveAsTheyAreCut) {
  ASSERT_OK_AND_ASSIGN(const FileDescriptor listener, ListenOn("127.0.0.1:0"));
  ASSERT_OK_AND_ASSIGN(const std::string address, AddressOf(listener.get()));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor client, ConnectTo(address));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor server, AcceptFrom(listener.get()));
  std::string sent(1 << 20, 'x');
  sent.back() = 'z';
  // More vectors than one system call takes, some of them empty.
  std::vector<iovec> vectors(1000, {.iov_base = sent.data(), .iov_len = 0});
  vectors.push_back({.iov_base = sent.data(), .iov_len = sent.size()});
  std::thread sender(
      [&] { EXPECT_OK(SendAll(client.get(), std::move(vectors))); });
  std::string head(7, '?');
  std::string tail(sent.size() - head.size(), '?');

  EXPECT_OK(ReceiveAll(server.get(),
                       {{.iov_base = head.data(), .iov_len = head.size()},
                        {.iov_base = tail.data(), .iov_len = tail.size()}}));
  sender.join();

  EXPECT_EQ(head + tail, sent);
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
  ASSERT_OK_AND_ASSIGN(const FileDescriptor listener, ListenOn(address));

  EXPECT_THAT(AddressOf(listener.get()), IsOkAndHolds(address));

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
