#include "bench/data_path/sockets/exchange.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string BytesOf(const Segment& segment) {
  return {segment.data, segment.size};
}

std::string ExpectedOf(const Segment& segment) {
  return {segment.expected, segment.size};
}

TEST(ExchangeTest, IsEmptyAtFirst) {
  const Exchange exchange;

  EXPECT_THAT(exchange.request(), IsEmpty());
  EXPECT_THAT(exchange.reply(), IsEmpty());
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

}  // namespace
}  // namespace tensorkv::bench
