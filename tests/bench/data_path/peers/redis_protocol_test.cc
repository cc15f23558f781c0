#include "bench/data_path/peers/redis_protocol.h"

#include "gtest/gtest.h"
#include "tests/bench/data_path/peers/exchange_text.h"

namespace tensorkv::bench {
namespace redis_protocol_test {

using ::tensorkv::testing::ReplyText;
using ::tensorkv::testing::RequestText;

constexpr ValueRange kOne = {.lane = 2, .num_keys = 1, .bytes_per_key = 4};
constexpr ValueRange kTwo = {.lane = 0, .num_keys = 2, .bytes_per_key = 3};

struct RedisProtocolTest : ::testing::Test {
  const RedisProtocol protocol_;
  Exchange exchange_;
  char room_[8] = {};
};

TEST_F(RedisProtocolTest, PutsOneValue) {
  protocol_.AddPut(kOne, "abcd", &exchange_);

  EXPECT_EQ(RequestText(exchange_),
            "*3\r\n$3\r\nSET\r\n$4\r\nk2.0\r\n$4\r\nabcd\r\n");
  EXPECT_EQ(ReplyText(exchange_), "+OK\r\n");
}

TEST_F(RedisProtocolTest, PutsSeveralValuesInOneCommand) {
  protocol_.AddPut(kTwo, "abcdef", &exchange_);

  EXPECT_EQ(RequestText(exchange_),
            "*5\r\n$4\r\nMSET\r\n$4\r\nk0.0\r\n$3\r\nabc\r\n"
            "$4\r\nk0.1\r\n$3\r\ndef\r\n");
  EXPECT_EQ(ReplyText(exchange_), "+OK\r\n");
}

TEST_F(RedisProtocolTest, GetsOneValue) {
  protocol_.AddGet(kOne, room_, &exchange_);

  EXPECT_EQ(RequestText(exchange_), "*2\r\n$3\r\nGET\r\n$4\r\nk2.0\r\n");
  EXPECT_EQ(ReplyText(exchange_), "$4\r\n<4>\r\n");
}

TEST_F(RedisProtocolTest, GetsSeveralValuesWithOneCommand) {
  protocol_.AddGet(kTwo, room_, &exchange_);

  EXPECT_EQ(RequestText(exchange_),
            "*3\r\n$4\r\nMGET\r\n$4\r\nk0.0\r\n$4\r\nk0.1\r\n");
  EXPECT_EQ(ReplyText(exchange_), "*2\r\n$3\r\n<3>\r\n$3\r\n<3>\r\n");
}

TEST_F(RedisProtocolTest, Deletes) {
  protocol_.AddDelete(kTwo, &exchange_);

  EXPECT_EQ(RequestText(exchange_),
            "*3\r\n$3\r\nDEL\r\n$4\r\nk0.0\r\n$4\r\nk0.1\r\n");
  EXPECT_EQ(ReplyText(exchange_), ":2\r\n");
}

}  // namespace redis_protocol_test
}  // namespace tensorkv::bench
