// Peers that send what no client would.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/guard/connection_guard.h"
#include "service/server/server.h"
#include "tests/service/http_get.h"
#include "tests/service/server/local_server.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::Init;
using ::testing::Not;
using testing::Pull;
using testing::StubOf;

ServerOptions Guarded() {
  ServerOptions options = testing::WithHttp();
  options.connection_filter = MakeConnectionGuard;
  return options;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) {
    frame.push_back(static_cast<char>(payload.size() >> shift));
  }
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  return frame + payload;
}

// What HTTP/2 begins with.
std::string Greeting() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "");
}

// A connection without a client library.
class RawPeer {
 public:
  explicit RawPeer(int port, const std::string& first = Greeting())
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    // Send would take the greeting of the server away.
    if (!first.empty()) Send(first);
  }

  // Returns false once the server has ended the connection. A send that waits
  // for room would wait for minutes then: the kernel asks a closed window ever
  // rarer.
  bool Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      pollfd socket = {fd_.get(), POLLIN | POLLOUT | POLLRDHUP, 0};
      if (poll(&socket, 1, -1) < 0) return false;
      if (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) return false;
      char reply[4096];
      while (recv(fd_.get(), reply, sizeof(reply), MSG_DONTWAIT) > 0) {
      }
      const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Returns once the server has sent that, or ended the connection; false then.
  bool ReceiveUntil(absl::string_view bytes) {
    std::string received;
    char reply[4096];
    while (!absl::StrContains(received, bytes)) {
      const ssize_t size = recv(fd_.get(), reply, sizeof(reply), 0);
      if (size <= 0) return false;
      received.append(reply, static_cast<size_t>(size));
    }
    return true;
  }

 private:
  const FileDescriptor fd_;
};

// Returns once a connection is counted as cut off, which its peer may notice
// before.
void AwaitCut(const Server& server) {
  while (!absl::StrContains(HttpGet(server.metrics_port(), "/metrics").body,
                            "tensorkv_connections_cut_total 1\n")) {
  }
}

TEST(HostilePeerTest, HeadersWithoutEndEndTheConnection) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Guarded()));
  RawPeer peer(server->port());
  // Literal fields, "x" with a value of 100 bytes.
  std::string fields;
  for (int i = 0; i < 100; ++i) {
    fields += absl::StrCat(std::string("\0\1x\x64", 4), std::string(100, 'y'));
  }
  peer.Send(Frame(1, 0, 1, fields));

  while (peer.Send(Frame(9, 0, 1, fields))) {
  }

  EXPECT_OK(Init(*StubOf(*server), "bytes"));
  AwaitCut(*server);
}

TEST(HostilePeerTest, ResetsWithoutEndEndTheConnection) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Guarded()));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));
  RawPeer peer(server->port());

  for (uint32_t stream = 1;; stream += 2) {
    if (!peer.Send(Frame(3, 0, stream, std::string(4, '\0')))) break;
  }

  EXPECT_OK(Pull(*stub));
  AwaitCut(*server);
}

// Expects that a peer is cut which sends that a thousand times, again and
// again.
void ExpectCut(const std::string& frame,
               const std::string& first = Greeting()) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Guarded()));
  RawPeer peer(server->port(), first);
  std::string frames;
  for (int i = 0; i < 1000; ++i) frames += frame;

  while (peer.Send(frames)) {
  }

  EXPECT_OK(Init(*StubOf(*server), "bytes"));
  AwaitCut(*server);
}

// gRPC itself ends nothing for these.
TEST(HostilePeerTest, SettingsWithoutEndEndTheConnection) {
  ExpectCut(Frame(4, 0, 0, ""));
}

TEST(HostilePeerTest, OtherProtocolsEndTheConnection) {
  ExpectCut("GET / HTTP/1.1\r\n", /*first=*/"");
}

// gRPC would end it too, but read all of them first.
TEST(HostilePeerTest, PingsWithoutEndEndTheConnection) {
  ExpectCut(Frame(6, 0, 0, "12345678"));
}

// POST, http, :path and :authority by their numbers in HPACK's table, and
// literals.
std::string HeadersOfInit() {
  return absl::StrCat("\x83\x86\x04\x16/tensorkv.v1.Data/Init", "\x01\x01k",
                      std::string("\0\x0c", 2), "content-type", "\x10",
                      "application/grpc", std::string("\0\2", 2), "te", "\x8",
                      "trailers");
}

// Calls of one connection that leave a debt of seconds if they stay open.
constexpr uint32_t kNumStreams = 8000;

std::string BeginCalls() {
  std::string calls;
  for (uint32_t stream = 1; stream < 2 * kNumStreams; stream += 2) {
    calls += Frame(1, 4, stream, HeadersOfInit());
  }
  return calls;
}

// It acknowledges no setting, so that gRPC bounds nothing.
TEST(HostilePeerTest, MoreStreamsThanAllowedEndTheConnection) {
  ServerOptions options = Guarded();
  options.max_streams = 4;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  RawPeer peer(server->port());

  for (uint32_t stream = 1;; stream += 2) {
    if (!peer.Send(Frame(1, 4, stream, HeadersOfInit()))) break;
  }

  EXPECT_OK(Init(*StubOf(*server), "bytes"));
  AwaitCut(*server);
}

// Whether a new connection comes to gRPC, which says its settings, though the
// peer says nothing.
bool IsGreeted(const Server& server) {
  return RawPeer(server.port(), "").ReceiveUntil({"\0", 1});
}

// How often a new connection is taken before one is refused, or so often.
constexpr int kEnough = 200;
int CountGreetings(const Server& server) {
  int num_greeted = 0;
  while (num_greeted < kEnough && IsGreeted(server)) ++num_greeted;
  return num_greeted;
}

std::vector<std::unique_ptr<RawPeer>> PeersOf(const Server& server,
                                              int num_peers) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < num_peers; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port()));
  }
  return peers;
}

// Expects that an address is refused whose connections send that, and end.
void ExpectRefusalAfter(const std::string& frames) {
  ServerOptions options = Guarded();
  options.max_streams = kNumStreams;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));
  const auto send = [&] {
    RawPeer peer(server->port());
    peer.Send(frames + Frame(6, 0, 0, "are you?"));
    peer.ReceiveUntil("are you?");
  };
  int num_greeted = 0;
  do {
    send();
  } while (IsGreeted(*server) && ++num_greeted < kEnough);

  EXPECT_LT(num_greeted, kEnough);
  EXPECT_OK(Pull(*stub));
}

// Ends of connections are no cheaper way to end streams than resets.
TEST(HostilePeerTest, AddressThatLeavesStreamsOpenIsRefused) {
  ExpectRefusalAfter(BeginCalls());
}

// Nor are resets of streams that there are not.
TEST(HostilePeerTest, AddressThatIsCutOffWithStreamsOpenIsRefused) {
  std::string resets;
  for (int i = 0; i < 20'000; ++i) {
    resets += Frame(3, 0, 100'001, std::string(4, '\0'));
  }
  ExpectRefusalAfter(BeginCalls() + resets);
}

TEST(HostilePeerTest, AddressThatIsCutOffAgainAndAgainIsRefused) {
  // Three times as many as its allowance is for.
  constexpr int kNumPeers = 150;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Guarded()));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));
  const auto peers = PeersOf(*server, kNumPeers);

  const std::string headers = Frame(1, 0, 1, std::string(70'000, 'x'));
  for (const auto& peer : peers) peer->Send(headers);
  for (const auto& peer : peers) EXPECT_FALSE(peer->ReceiveUntil("no end"));

  EXPECT_LT(CountGreetings(*server), kEnough);
  EXPECT_OK(Pull(*stub));
}

TEST(HostilePeerTest, AddressOfManyConnectionsWithoutCallsIsRefused) {
  // Twice as many as its allowance is for.
  constexpr int kNumPeers = 500;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(Guarded()));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));
  PeersOf(*server, kNumPeers).clear();

  EXPECT_LT(CountGreetings(*server), kEnough);

  EXPECT_OK(Pull(*stub));
  // How many depends on when each is heard of: those that were taken before
  // the debt are cut off when they are first read.
  EXPECT_THAT(
      HttpGet(server->metrics_port(), "/metrics").body,
      AllOf(HasSubstr("\ntensorkv_connections_refused_total "),
            Not(HasSubstr("\ntensorkv_connections_refused_total 0\n"))));
}

TEST(HostilePeerTest, MessagesWithoutEndEndTheConnectionThatHasTheMost) {
  ServerOptions options = Guarded();
  // Less than a peer may send before the server asks for more.
  options.max_message_bytes = 40'000;
  options.max_unfinished_bytes = 40'000;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));
  const std::string fields = HeadersOfInit();
  const std::string message =
      std::string("\0\0\0\x4e\x20", 5) + std::string(8000, 'x');
  const std::string of_modest = "tensorkv_unfinished_bytes 8000\n";
  const auto metrics = [&] {
    return HttpGet(server->metrics_port(), "/metrics").body;
  };
  RawPeer modest(server->port());
  modest.Send(Frame(1, 4, 1, fields) + Frame(0, 0, 1, message));
  while (!absl::StrContains(metrics(), of_modest)) {
  }
  RawPeer peer(server->port());

  for (uint32_t stream = 1;; stream += 2) {
    if (!peer.Send(Frame(1, 4, stream, fields) + Frame(0, 0, stream, message)))
      break;
  }

  EXPECT_OK(Pull(*stub));
  EXPECT_TRUE(modest.Send(Frame(6, 0, 0, "12345678")));
  AwaitCut(*server);
  EXPECT_THAT(metrics(), HasSubstr(of_modest));
}

TEST(HostilePeerTest, ConnectionsBeyondTheLimitAreClosed) {
  ServerOptions options = Guarded();
  options.max_connections = 1;
  ASSERT_OK_AND_ASSIGN(auto server, Server::Create(options));
  const auto stub = StubOf(*server);
  ASSERT_OK(Init(*stub, "bytes"));

  RawPeer peer(server->port());
  while (peer.Send(Frame(6, 0, 0, "12345678"))) {
  }

  EXPECT_OK(Pull(*stub));
}

}  // namespace
}  // namespace tensorkv
