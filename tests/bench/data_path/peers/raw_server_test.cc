#include "bench/data_path/peers/raw_server.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "bench/data_path/sockets/exchange.h"
#include "bench/data_path/sockets/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/data_path/peers/raw_server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::RawServerFixture;
using ::tensorkv::testing::StatusIs;

ValueRange RangeOf(int lane, const std::string& value) {
  return {.lane = lane, .bytes_per_key = static_cast<int64_t>(value.size())};
}

class RawServerTest : public ::testing::Test {
 protected:
  // A call over the one connection.
  template <typename Add>
  absl::Status Call(Add add) {
    Exchange exchange;
    add(&exchange);
    return exchange.Run(connection_.get());
  }

  absl::Status Put(int lane, const std::string& value) {
    return Call([&](Exchange* exchange) {
      kRawProtocol.add_put(RangeOf(lane, value), value.data(), exchange);
    });
  }

  // Whether a slot has that value.
  absl::StatusOr<bool> Has(int lane, const std::string& value) {
    std::string room(value.size(), '?');
    const absl::Status status = Call([&](Exchange* exchange) {
      kRawProtocol.add_get(RangeOf(lane, value), room.data(), exchange);
    });
    if (!status.ok()) return status;
    return room == value;
  }

  RawServerFixture server_;
  const FileDescriptor connection_ = ConnectTo(server_.address()).value();
};

TEST_F(RawServerTest, ValuesOfAllSizesComeBack) {
  for (const size_t size : {4u, 16384u, 65540u, 3u << 20}) {
    std::string value(size, 'v');
    value.front() = 'a';
    value.back() = 'z';
    ASSERT_OK(Put(1, value)) << size;
    EXPECT_THAT(Has(1, value), IsOkAndHolds(true)) << size;
  }
}

TEST_F(RawServerTest, SlotsKeepValuesOfTheirOwn) {
  ASSERT_OK(Put(1, "1111"));
  ASSERT_OK(Put(2, "22222222"));
  ASSERT_OK(Put(1, "3333"));

  EXPECT_THAT(Has(1, "3333"), IsOkAndHolds(true));
  EXPECT_THAT(Has(2, "22222222"), IsOkAndHolds(true));
}

TEST_F(RawServerTest, RequestsInARowAreAnsweredInOrder) {
  std::string room(4, '?');
  ASSERT_OK(Call([&](Exchange* exchange) {
    kRawProtocol.add_put(RangeOf(1, "1111"), "1111", exchange);
    kRawProtocol.add_get(RangeOf(1, "1111"), room.data(), exchange);
  }));

  EXPECT_EQ(room, "1111");
}

TEST_F(RawServerTest, AnEmptySlotEndsTheConnection) {
  EXPECT_THAT(Has(3, "1111"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(RawServerTest, ADeletedSlotIsEmpty) {
  ASSERT_OK(Put(1, "1111"));
  ASSERT_OK(Call([&](Exchange* exchange) {
    kRawProtocol.add_delete(RangeOf(1, "1111"), exchange);
  }));

  EXPECT_THAT(Has(1, "1111"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(RawServerTest, WrongHeadersAreRefused) {
  for (const RawHeader& header :
       {RawHeader{.operation = static_cast<RawOperation>(9)},
        RawHeader{.size_bytes = uint64_t{1} << 60},
        RawHeader{.size_bytes = 3}}) {
    const FileDescriptor listener = ListenOn("127.0.0.1:0").value();
    const FileDescriptor client =
        ConnectTo(AddressOf(listener.get()).value()).value();
    const FileDescriptor connection = AcceptFrom(listener.get()).value();
    ASSERT_EQ(write(client.get(), &header, sizeof(header)), sizeof(header));

    EXPECT_THAT(RawServer().Serve(connection.get()),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace tensorkv::bench
