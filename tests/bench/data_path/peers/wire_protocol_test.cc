#include "bench/data_path/peers/wire_protocol.h"

#include <ostream>
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

enum class Call { kPut, kGet, kDelete };

constexpr ValueRange kOne = {.lane = 2, .num_keys = 1, .bytes_per_key = 4};
constexpr ValueRange kTwo = {.lane = 0, .num_keys = 2, .bytes_per_key = 3};

// A call of the values "abc...", and what goes over the connection.
struct WireCase {
  const char* name;
  const WireProtocol* protocol;
  Call call;
  ValueRange range;
  std::string request;
  std::string reply;
};

void PrintTo(const WireCase& c, std::ostream* out) { *out << c.name; }

std::string Header(RawOperation operation, uint32_t slot, uint64_t size_bytes) {
  const RawHeader header = {operation, slot, size_bytes};
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

class WireProtocolTest : public ::testing::TestWithParam<WireCase> {};

TEST_P(WireProtocolTest, SendsAndExpects) {
  const WireCase& c = GetParam();
  char room[8];
  Exchange exchange;
  switch (c.call) {
    case Call::kPut:
      c.protocol->add_put(c.range, "abcdefgh", &exchange);
      break;
    case Call::kGet:
      c.protocol->add_get(c.range, room, &exchange);
      break;
    case Call::kDelete:
      c.protocol->add_delete(c.range, &exchange);
      break;
  }

  EXPECT_EQ(RequestText(exchange), c.request);
  EXPECT_EQ(ReplyText(exchange), c.reply);
}

INSTANTIATE_TEST_SUITE_P(
    AllProtocols, WireProtocolTest,
    ::testing::Values(
        WireCase{"RawPutsALanesValuesAsOne", &kRawProtocol, Call::kPut, kTwo,
                 Header(RawOperation::kPut, 0, 6) + "abcdef",
                 Header(RawOperation::kPut, 0, 6)},
        WireCase{"RawGetsALanesValuesAsOne", &kRawProtocol, Call::kGet, kTwo,
                 Header(RawOperation::kGet, 0, 0),
                 Header(RawOperation::kGet, 0, 6) + "<6>"},
        WireCase{"RawDeletes", &kRawProtocol, Call::kDelete, kOne,
                 Header(RawOperation::kDelete, 2, 0),
                 Header(RawOperation::kDelete, 2, 0)},
        WireCase{"RedisPutsOneValue", &kRedisProtocol, Call::kPut, kOne,
                 "*3\r\n$3\r\nSET\r\n$4\r\nk2.0\r\n$4\r\nabcd\r\n", "+OK\r\n"},
        WireCase{"RedisPutsSeveralValues", &kRedisProtocol, Call::kPut, kTwo,
                 "*5\r\n$4\r\nMSET\r\n$4\r\nk0.0\r\n$3\r\nabc\r\n"
                 "$4\r\nk0.1\r\n$3\r\ndef\r\n",
                 "+OK\r\n"},
        WireCase{"RedisGetsOneValue", &kRedisProtocol, Call::kGet, kOne,
                 "*2\r\n$3\r\nGET\r\n$4\r\nk2.0\r\n", "$4\r\n<4>\r\n"},
        WireCase{"RedisGetsSeveralValues", &kRedisProtocol, Call::kGet, kTwo,
                 "*3\r\n$4\r\nMGET\r\n$4\r\nk0.0\r\n$4\r\nk0.1\r\n",
                 "*2\r\n$3\r\n<3>\r\n$3\r\n<3>\r\n"},
        WireCase{"RedisDeletes", &kRedisProtocol, Call::kDelete, kTwo,
                 "*3\r\n$3\r\nDEL\r\n$4\r\nk0.0\r\n$4\r\nk0.1\r\n", ":2\r\n"},
        WireCase{"MemcachedPutsEveryValue", &kMemcachedProtocol, Call::kPut,
                 kTwo, "set k0.0 0 0 3\r\nabc\r\nset k0.1 0 0 3\r\ndef\r\n",
                 "STORED\r\nSTORED\r\n"},
        WireCase{"MemcachedGetsSeveralValuesWithOneLine", &kMemcachedProtocol,
                 Call::kGet, kTwo, "get k0.0 k0.1\r\n",
                 "VALUE k0.0 0 3\r\n<3>\r\nVALUE k0.1 0 3\r\n<3>\r\nEND\r\n"},
        WireCase{"MemcachedDeletes", &kMemcachedProtocol, Call::kDelete, kTwo,
                 "delete k0.0\r\ndelete k0.1\r\n", "DELETED\r\nDELETED\r\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(MemcachedProtocolTest, ManyKeysTakeSeveralLines) {
  std::string room(65, '?');
  Exchange exchange;
  kMemcachedProtocol.add_get({.lane = 0, .num_keys = 65, .bytes_per_key = 1},
                             room.data(), &exchange);

  EXPECT_THAT(RequestText(exchange), HasSubstr(" k0.63\r\nget k0.64\r\n"));
  EXPECT_THAT(ReplyText(exchange),
              EndsWith("END\r\nVALUE k0.64 0 1\r\n<1>\r\nEND\r\n"));
}

}  // namespace
}  // namespace tensorkv::bench
