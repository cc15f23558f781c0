#include "contract/duration.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

constexpr int64_t kMostSeconds = 315576000000;

google::protobuf::Duration Proto(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration proto;
  proto.set_seconds(seconds);
  proto.set_nanos(nanos);
  return proto;
}

TEST(DurationTest, ComesBackAsItWas) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Milliseconds(-1500),
        absl::Seconds(kMostSeconds), -absl::Seconds(kMostSeconds)}) {
    google::protobuf::Duration proto;
    EncodeDuration(duration, &proto);

    EXPECT_EQ(DecodeDuration("lease", proto).value(), duration);
    EXPECT_EQ(DurationIn(proto), duration);
  }
}

TEST(DurationTest, IsRefusedBeyondProtobufsBound) {
  for (const auto& proto : {Proto(kMostSeconds + 1, 0), Proto(INT64_MIN, 0),
                            Proto(0, 1'000'000'000), Proto(1, -1)}) {
    const absl::Status status = DecodeDuration("lease", proto).status();

    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(DurationIn(proto), absl::ZeroDuration());
  }
  EXPECT_EQ(DecodeDuration("lease", Proto(1, -1)).status().message(),
            "lease: expected a duration, got 1 seconds and -1 nanoseconds");
}

TEST(DurationTest, EndsAtProtobufsBound) {
  google::protobuf::Duration proto;
  EncodeDuration(absl::InfiniteDuration(), &proto);

  EXPECT_EQ(proto.seconds(), kMostSeconds);
  EXPECT_EQ(proto.nanos(), 0);
}

}  // namespace
}  // namespace tensorkv
