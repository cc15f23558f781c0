#include "service/guard/http2_scanner.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

constexpr uint8_t kData = 0;
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kRstStream = 3;
constexpr uint8_t kPing = 6;
constexpr uint8_t kContinuation = 9;
constexpr uint8_t kAck = 1;
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

std::string Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

std::string Frame(uint8_t type, uint8_t flags, size_t size) {
  const char header[] = {static_cast<char>(size >> 16),
                         static_cast<char>(size >> 8),
                         static_cast<char>(size),
                         static_cast<char>(type),
                         static_cast<char>(flags),
                         0,
                         0,
                         0,
                         1};
  // Contents that look like other frames' headers.
  return std::string(header, sizeof(header)) + std::string(size, kRstStream);
}

TEST(Http2ScannerTest, CountsResetsAmongOtherFrames) {
  const std::string bytes = absl::StrCat(
      Preface(), Frame(kHeaders, kEndHeaders, 50), Frame(kRstStream, 0, 4),
      Frame(kData, 0, 70'000), Frame(kRstStream, 0, 4), Frame(4, 0, 0));

  EXPECT_EQ(Http2Scanner().Scan(bytes).num_resets, 2u);
}

TEST(Http2ScannerTest, SeesTheSameHoweverTheBytesAreCut) {
  const std::string bytes =
      absl::StrCat(Preface(), Frame(kHeaders, kEndHeaders, 300),
                   Frame(kRstStream, 0, 4), Frame(kHeaders, 0, 20));
  Http2Scanner scanner;
  uint32_t num_resets = 0;
  uint64_t last_block = 0;

  for (const char byte : bytes) {
    const Http2Scanner::Seen seen = scanner.Scan({&byte, 1});
    num_resets += seen.num_resets;
    if (seen.header_block_bytes > 0) last_block = seen.header_block_bytes;
  }

  EXPECT_EQ(num_resets, 1u);
  EXPECT_EQ(last_block, 20u);
}

TEST(Http2ScannerTest, PingsAreIdleUntilTheServerSendsSomethingOfCalls) {
  Http2Scanner scanner;
  scanner.Scan(Preface());
  const std::string ping = Frame(kPing, 0, 8);

  EXPECT_EQ(scanner.Scan(ping).num_idle_pings, 0u);
  EXPECT_EQ(scanner.Scan(ping + ping).num_idle_pings, 2u);
  scanner.ScanReply(Frame(kPing, kAck, 8));
  EXPECT_EQ(scanner.Scan(ping).num_idle_pings, 1u);
  scanner.ScanReply(Frame(kData, 0, 100));
  EXPECT_EQ(scanner.Scan(ping + Frame(kPing, kAck, 8)).num_idle_pings, 0u);
}

TEST(Http2ScannerTest, HeaderBlockGrowsUntilItEnds) {
  Http2Scanner scanner;
  scanner.Scan(Preface());

  EXPECT_EQ(scanner.Scan(Frame(kHeaders, 0, 100)).header_block_bytes, 100u);
  EXPECT_EQ(scanner.Scan(Frame(kContinuation, 0, 30)).header_block_bytes, 130u);
  EXPECT_EQ(
      scanner.Scan(Frame(kContinuation, kEndHeaders, 5)).header_block_bytes,
      135u);
  EXPECT_EQ(scanner.Scan(Frame(kHeaders, kEndHeaders, 7)).header_block_bytes,
            7u);
}

TEST(Http2ScannerTest, SeesNothingInOtherProtocols) {
  Http2Scanner scanner;

  EXPECT_TRUE(scanner.Scan("PRI * HT").is_http2);
  EXPECT_FALSE(scanner.Scan("TP/1").is_http2);
  EXPECT_EQ(scanner.Scan(Frame(kRstStream, 0, 4)).num_resets, 0u);
}

std::string StreamFrame(uint8_t type, uint8_t flags, uint32_t stream,
                        const std::string& payload) {
  std::string frame = Frame(type, flags, payload.size()).substr(0, 5);
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  return frame + payload;
}

// What a message of `size` bytes begins with.
std::string Prefix(uint32_t size) {
  std::string prefix(1, '\0');
  for (const int shift : {24, 16, 8, 0}) {
    prefix.push_back(static_cast<char>(size >> shift));
  }
  return prefix;
}

std::string Open(uint32_t stream) {
  return StreamFrame(kHeaders, kEndHeaders, stream, "");
}

// A scanner that has seen 10 of 100 bytes on each of two streams, byte by byte.
Http2Scanner WithTwoUnfinished() {
  Http2Scanner scanner;
  const std::string part = Prefix(100) + std::string(10, 'x');
  for (const char byte :
       absl::StrCat(Preface(), Open(1), Open(3), StreamFrame(kData, 0, 1, part),
                    StreamFrame(kData, 0, 3, part))) {
    scanner.Scan({&byte, 1});
  }
  return scanner;
}

TEST(Http2ScannerTest, WhatHasComeOfMessagesCountsUntilTheyEnd) {
  Http2Scanner scanner = WithTwoUnfinished();
  EXPECT_EQ(scanner.unfinished_bytes(), 20u);

  // The rest of one, another as a whole, and the beginning of a third.
  scanner.Scan(StreamFrame(
      kData, 0, 1,
      absl::StrCat(std::string(90, 'x'), Prefix(4), "abcd", Prefix(9), "abc")));

  EXPECT_EQ(scanner.unfinished_bytes(), 10u + 3u);
}

TEST(Http2ScannerTest, StreamsThatNoClientMayOpenDoNotCount) {
  Http2Scanner scanner = WithTwoUnfinished();

  scanner.Scan(Open(8) + StreamFrame(kData, 0, 8, Prefix(100) + "xxx"));
  scanner.Scan(Open(7) + StreamFrame(kData, 0, 7, Prefix(100) + "xxxx"));

  EXPECT_EQ(scanner.unfinished_bytes(), 20u + 4u);
}

// Whoever ends a stream: it is open until the server has ended it, or the
// client has reset it.
TEST(Http2ScannerTest, StreamsAreOpenUntilTheServerHasEndedThem) {
  Http2Scanner scanner = WithTwoUnfinished();

  EXPECT_EQ(scanner.Scan(Open(5) + StreamFrame(kData, kEndStream, 5, "xxxxx"))
                .num_open_streams,
            3u);
  scanner.ScanReply(StreamFrame(kHeaders, kEndHeaders, 5, "headers") +
                    StreamFrame(kHeaders, kEndHeaders | kEndStream, 5, "end"));
  EXPECT_EQ(scanner.num_open_streams(), 2u);
  scanner.Scan(StreamFrame(kRstStream, 0, 3, "code"));
  EXPECT_EQ(scanner.num_open_streams(), 1u);
}

TEST(Http2ScannerTest, WhatComesAfterTheClientsEndDoesNotCount) {
  Http2Scanner scanner = WithTwoUnfinished();

  scanner.Scan(StreamFrame(kData, kEndStream, 1, "") +
               StreamFrame(kData, 0, 1, Prefix(100) + "more"));

  EXPECT_EQ(scanner.unfinished_bytes(), 10u);
}

TEST(Http2ScannerTest, MessagesOfStreamsThatEndCountNoLonger) {
  Http2Scanner scanner = WithTwoUnfinished();

  scanner.Scan(StreamFrame(kRstStream, 0, 1, "code"));
  EXPECT_EQ(scanner.unfinished_bytes(), 10u);
  scanner.Scan(StreamFrame(kData, kEndStream, 3, "xxxxx"));
  EXPECT_EQ(scanner.unfinished_bytes(), 0u);
}

TEST(Http2ScannerTest, WhatComesAfterTheServersResetDoesNotCount) {
  Http2Scanner scanner = WithTwoUnfinished();
  // It may reset a stream in the middle of a frame.
  scanner.Scan(StreamFrame(kData, 0, 1, "xxxxxx").substr(0, 12));

  scanner.ScanReply(StreamFrame(4, 0, 0, "settings") +
                    StreamFrame(kRstStream, 0, 1, "code"));
  scanner.Scan("xxx" + StreamFrame(kData, 0, 1, "more"));

  EXPECT_EQ(scanner.unfinished_bytes(), 10u);
}

}  // namespace
}  // namespace tensorkv
