#include "contract/retry_delay.h"

#include "absl/strings/cord.h"
#include "contract/grpc_status.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";

TEST(RetryDelayTest, TravelsWithTheStatus) {
  const absl::Status status = WithRetryDelay(
      absl::ResourceExhaustedError("quota"), absl::Milliseconds(61'500));

  EXPECT_EQ(RetryDelayOf(FromGrpcStatus(ToGrpcStatus(status))),
            absl::Milliseconds(61'500));
  EXPECT_EQ(RetryDelayOf(absl::ResourceExhaustedError("quota")), std::nullopt);
}

TEST(RetryDelayTest, WhatNobodyWaitsForIsNone) {
  absl::Status status =
      WithRetryDelay(absl::ResourceExhaustedError("quota"), absl::Minutes(11));
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
  status = WithRetryDelay(status, -absl::Seconds(1));
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
  status.SetPayload(kRetryInfo, absl::Cord("\x0a\xff"));
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
}

}  // namespace
}  // namespace tensorkv
