#include "base/listening_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::AnyOf;

std::string WhyNot(absl::string_view address) {
  return std::string(ListeningSockets::Open(address).status().message());
}

// Whether the sockets have a connection to accept, now.
bool HasConnection(const ListeningSockets& sockets) {
  const FileDescriptor connection(AcceptFrom(sockets.fds()[0]));
  return connection.is_open();
}

TEST(ListeningSocketsTest, TakesConnectionsAtThePortItTells) {
  const auto sockets = ListeningSockets::Open("127.0.0.1:0").value();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(sockets.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const FileDescriptor client(socket(AF_INET, SOCK_STREAM, 0));

  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address),
                    sizeof(address)),
            0);

  EXPECT_TRUE(HasConnection(sockets));
  EXPECT_FALSE(HasConnection(sockets));
}

TEST(ListeningSocketsTest, NameMayMeanSeveralAddresses) {
  const auto sockets = ListeningSockets::Open("localhost:0");

  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_GE(sockets->fds().size(), 1u);
  EXPECT_NE(sockets->port(), 0);
}

TEST(ListeningSocketsTest, PortThatIsTakenIsRefused) {
  const auto taken = ListeningSockets::Open("127.0.0.1:0").value();

  EXPECT_EQ(WhyNot(absl::StrCat("127.0.0.1:", taken.port())),
            "Address already in use");
}

TEST(ListeningSocketsTest, AddressOfAnotherMachineIsRefused) {
  // Of the block for documentation, RFC 5737.
  EXPECT_EQ(WhyNot("192.0.2.1:0"), "Cannot assign requested address");
}

TEST(ListeningSocketsTest, SaysWhatIsWrongWithASocketsPath) {
  EXPECT_THAT(WhyNot("unix:/no/such/directory/socket"),
              AnyOf("No such file or directory"));
  EXPECT_EQ(WhyNot("unix:/tmp/" + std::string(108, 'x')), "File name too long");
}

class UnixSocketTest : public ::testing::Test {
 protected:
  // The directory for tests is too long for a socket's address.
  void SetUp() override { ASSERT_NE(mkdtemp(directory_), nullptr); }
  void TearDown() override {
    unlink(path().c_str());
    rmdir(directory_);
  }

  std::string path() const { return absl::StrCat(directory_, "/socket"); }
  std::string address() const { return absl::StrCat("unix:", path()); }

 private:
  char directory_[32] = "/tmp/tensorkv-XXXXXX";
};

TEST_F(UnixSocketTest, OneThatIsServedIsRefused) {
  const auto first = ListeningSockets::Open(address()).value();

  EXPECT_EQ(WhyNot(address()), "Address already in use");
  // Still there, though the other one has looked whether it is.
  EXPECT_EQ(access(path().c_str(), F_OK), 0);
}

TEST_F(UnixSocketTest, OneThatWasLeftBehindIsReplaced) {
  auto first = ListeningSockets::Open(address()).value();
  // What remains of a process that was killed.
  ASSERT_EQ(rename(path().c_str(), (path() + "2").c_str()), 0);
  { const auto gone = std::move(first); }
  ASSERT_EQ(rename((path() + "2").c_str(), path().c_str()), 0);

  EXPECT_EQ(WhyNot(address()), "");
}

TEST_F(UnixSocketTest, OtherFilesAreNotReplaced) {
  ASSERT_EQ(mkdir(path().c_str(), 0700), 0);

  EXPECT_EQ(WhyNot(address()), "Address already in use");
  rmdir(path().c_str());
}

TEST_F(UnixSocketTest, FileGoesWithTheSockets) {
  { const auto sockets = ListeningSockets::Open(address()).value(); }

  EXPECT_NE(access(path().c_str(), F_OK), 0);
}

}  // namespace
}  // namespace tensorkv
