#include "bench/data_path/peers/connection_count.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "bench/data_path/sockets/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;

class ConnectionCountTest : public ::testing::Test {
 protected:
  ConnectionCountTest() {
    for (int i = 0; i < 4; ++i) {
      clients_.push_back(ConnectTo(address_).value());
      servers_.push_back(AcceptFrom(listener_).value());
    }
  }

  absl::Status Send(int connection, int num_bytes) {
    const std::string bytes(num_bytes, 'x');
    return write(clients_[connection].fd(), bytes.data(), bytes.size()) ==
                   num_bytes
               ? absl::OkStatus()
               : absl::InternalError("write");
  }

  const Socket listener_ = ListenOn("127.0.0.1:0").value();
  const std::string address_ = AddressOf(listener_).value();
  std::vector<Socket> clients_;
  std::vector<Socket> servers_;
};

TEST_F(ConnectionCountTest, CountsThoseThatCarryTheBytes) {
  EXPECT_THAT(CountBusyConnections(address_,
                                   [this] {
                                     Send(0, 10'000).IgnoreError();
                                     Send(1, 10).IgnoreError();  // a ping
                                     return Send(2, 5'000);
                                   }),
              IsOkAndHolds(2));
}

TEST_F(ConnectionCountTest, WhatWasMovedBeforeDoesNotCount) {
  ASSERT_OK(Send(0, 10'000));

  EXPECT_THAT(CountBusyConnections(address_, [this] { return Send(1, 1'000); }),
              IsOkAndHolds(1));
}

TEST_F(ConnectionCountTest, IsAtLeastOne) {
  EXPECT_THAT(CountBusyConnections(address_, [] { return absl::OkStatus(); }),
              IsOkAndHolds(1));
}

TEST_F(ConnectionCountTest, AnErrorOfTheCallsIsReturned) {
  EXPECT_THAT(
      CountBusyConnections(address_, [] { return absl::AbortedError("no"); }),
      StatusIs(absl::StatusCode::kAborted, "no"));
}

TEST_F(ConnectionCountTest, AnAddressWithoutPortIsInvalid) {
  EXPECT_THAT(
      CountBusyConnections("unix:/socket", [] { return absl::OkStatus(); }),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv::bench
