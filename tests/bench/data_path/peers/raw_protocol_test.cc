#include "bench/data_path/peers/raw_protocol.h"

#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/data_path/peers/exchange_text.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::ReplyText;
using ::tensorkv::testing::RequestText;

constexpr ValueRange kRange = {.lane = 5, .num_keys = 2, .bytes_per_key = 4};

// The bytes of a header.
std::string Header(RawOperation operation, uint64_t size_bytes) {
  const RawHeader header = {
      .operation = operation, .slot = 5, .size_bytes = size_bytes};
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

TEST(RawProtocolTest, PutsALanesValuesAsOne) {
  Exchange exchange;
  RawProtocol().AddPut(kRange, "abcdefgh", &exchange);

  EXPECT_EQ(RequestText(exchange), Header(RawOperation::kPut, 8) + "abcdefgh");
  EXPECT_EQ(ReplyText(exchange), Header(RawOperation::kPut, 8));
}

TEST(RawProtocolTest, GetsALanesValuesAsOne) {
  char room[8];
  Exchange exchange;
  RawProtocol().AddGet(kRange, room, &exchange);

  EXPECT_EQ(RequestText(exchange), Header(RawOperation::kGet, 0));
  EXPECT_EQ(ReplyText(exchange), Header(RawOperation::kGet, 8) + "<8>");
}

TEST(RawProtocolTest, Deletes) {
  Exchange exchange;
  RawProtocol().AddDelete(kRange, &exchange);

  EXPECT_EQ(RequestText(exchange), Header(RawOperation::kDelete, 0));
  EXPECT_EQ(ReplyText(exchange), Header(RawOperation::kDelete, 0));
}

}  // namespace
}  // namespace tensorkv::bench
