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

TEST(RetryDelayTest, WhatNobodyWaitsForIsNever) {
  absl::Status status =
      WithRetryDelay(absl::ResourceExhaustedError("quota"), absl::Minutes(11));
  EXPECT_EQ(RetryDelayOf(status), absl::InfiniteDuration());
  status = WithRetryDelay(status, -absl::Seconds(1));
  EXPECT_EQ(RetryDelayOf(status), absl::InfiniteDuration());
  // Not a Duration; one of 2^63-1 seconds; not a message.
  for (const char* info :
       {"\x0a\xff", "\x0a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "\xff"}) {
    status.SetPayload(kRetryInfo, absl::Cord(info));
    EXPECT_EQ(RetryDelayOf(status), absl::InfiniteDuration());
  }
}

}  // namespace
}  // namespace tensorkv
