#include "bench/data_path/sockets/exchange.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

using ::testing::SizeIs;

std::string BytesOf(const Segment& segment) {
  return {segment.data, segment.size};
}

std::string ExpectedOf(const Segment& segment) {
  return {segment.expected, segment.size};
}

TEST(ExchangeTest, ValuesAreSentFromTheirMemory) {
  const std::string value = "value";
  Exchange exchange;
  exchange.Send("set ");
  exchange.SendValues(value.data(), value.size());
  exchange.Send("\r\n");

  ASSERT_THAT(exchange.request(), SizeIs(3));
  EXPECT_EQ(BytesOf(exchange.request()[0]), "set ");
  EXPECT_EQ(exchange.request()[1].data, value.data());
  EXPECT_EQ(BytesOf(exchange.request()[2]), "\r\n");
}

TEST(ExchangeTest, TextsInARowAreOneSegment) {
  Exchange exchange;
  exchange.Send("short");
  exchange.Send(", and far longer than a short string holds by itself");
  exchange.Expect("a");
  exchange.Expect("b");

  ASSERT_THAT(exchange.request(), SizeIs(1));
  EXPECT_EQ(BytesOf(exchange.request()[0]),
            "short, and far longer than a short string holds by itself");
  ASSERT_THAT(exchange.reply(), SizeIs(1));
  EXPECT_EQ(ExpectedOf(exchange.reply()[0]), "ab");
}

TEST(ExchangeTest, ValuesAreReceivedIntoTheirMemory) {
  char room[3];
  Exchange exchange;
  exchange.Expect("$3\r\n");
  exchange.ReceiveValues(room, sizeof(room));
  exchange.Expect("\r\n");

  ASSERT_THAT(exchange.reply(), SizeIs(3));
  EXPECT_EQ(ExpectedOf(exchange.reply()[0]), "$3\r\n");
  EXPECT_EQ(exchange.reply()[1].data, room);
  EXPECT_EQ(exchange.reply()[1].expected, nullptr);
  EXPECT_EQ(ExpectedOf(exchange.reply()[2]), "\r\n");
}

TEST(ExchangeTest, SegmentsStandWhenItIsMoved) {
  Exchange exchange;
  exchange.Send("get");
  exchange.Expect("ok");

  const Exchange moved = std::move(exchange);

  EXPECT_EQ(BytesOf(moved.request()[0]), "get");
  EXPECT_EQ(ExpectedOf(moved.reply()[0]), "ok");
}

// Runs an exchange with a peer that sends `reply` at once.
absl::Status RunWith(Exchange exchange, const std::string& reply) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    return absl::UnavailableError("socketpair");
  }
  const FileDescriptor ours(ends[0]);
  FileDescriptor peer(ends[1]);
  const bool is_sent =
      write(peer.get(), reply.data(), reply.size()) == ssize_t(reply.size());
  EXPECT_TRUE(is_sent);
  shutdown(peer.get(), SHUT_WR);
  return exchange.Run(ours.get());
}

TEST(ExchangeTest, AReplyFillsTheRoomForItsValues) {
  std::string room(3, '?');
  Exchange exchange;
  exchange.Send("get");
  exchange.Expect("$3\r\n");
  exchange.ReceiveValues(room.data(), room.size());

  EXPECT_OK(RunWith(std::move(exchange), "$3\r\nabc"));
  EXPECT_EQ(room, "abc");
}

TEST(ExchangeTest, AnotherReplyIsInternal) {
  Exchange exchange;
  exchange.Expect("STORED\r\n");

  EXPECT_THAT(RunWith(std::move(exchange), "ERROR!\r\n"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("expected \"STORED\\r\\n\", got \"ERROR!")));
}

TEST(ExchangeTest, AReplyThatEndsTooEarlyIsUnavailable) {
  Exchange exchange;
  exchange.Expect("STORED\r\n");

  EXPECT_THAT(RunWith(std::move(exchange), "STO"),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv::bench
