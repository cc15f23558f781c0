#include "bench/data_path/peers/memcached_protocol.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/data_path/peers/exchange_text.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::ReplyText;
using ::tensorkv::testing::RequestText;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr ValueRange kTwo = {.lane = 0, .num_keys = 2, .bytes_per_key = 3};

struct MemcachedProtocolTest : ::testing::Test {
  const MemcachedProtocol protocol_;
  Exchange exchange_;
};

TEST_F(MemcachedProtocolTest, PutsEveryValue) {
  protocol_.AddPut(kTwo, "abcdef", &exchange_);

  EXPECT_EQ(RequestText(exchange_),
            "set k0.0 0 0 3\r\nabc\r\nset k0.1 0 0 3\r\ndef\r\n");
  EXPECT_EQ(ReplyText(exchange_), "STORED\r\nSTORED\r\n");
}

TEST_F(MemcachedProtocolTest, GetsSeveralValuesWithOneLine) {
  char room[6];
  protocol_.AddGet(kTwo, room, &exchange_);

  EXPECT_EQ(RequestText(exchange_), "get k0.0 k0.1\r\n");
  EXPECT_EQ(ReplyText(exchange_),
            "VALUE k0.0 0 3\r\n<3>\r\nVALUE k0.1 0 3\r\n<3>\r\nEND\r\n");
}

TEST_F(MemcachedProtocolTest, ManyKeysTakeSeveralLines) {
  std::string room(65, '?');
  protocol_.AddGet({.lane = 0, .num_keys = 65, .bytes_per_key = 1}, room.data(),
                   &exchange_);

  EXPECT_THAT(RequestText(exchange_), HasSubstr(" k0.63\r\nget k0.64\r\n"));
  EXPECT_THAT(ReplyText(exchange_),
              EndsWith("END\r\nVALUE k0.64 0 1\r\n<1>\r\nEND\r\n"));
}

TEST_F(MemcachedProtocolTest, Deletes) {
  protocol_.AddDelete(kTwo, &exchange_);

  EXPECT_EQ(RequestText(exchange_), "delete k0.0\r\ndelete k0.1\r\n");
  EXPECT_EQ(ReplyText(exchange_), "DELETED\r\nDELETED\r\n");
}

}  // namespace
}  // namespace tensorkv::bench
