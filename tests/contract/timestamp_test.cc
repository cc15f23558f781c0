#include "contract/timestamp.h"

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(TimestampTest, NanosecondsCountFromTheSecondBefore) {
  const struct {
    int64_t nanoseconds;
    int64_t seconds;
    int32_t nanos;
  } rows[] = {{0, 0, 0},
              {1'500'000'000, 1, 500'000'000},
              {-1, -1, 999'999'999},
              {-1'000'000'000, -1, 0},
              {-1'500'000'000, -2, 500'000'000}};
  for (const auto& row : rows) {
    const absl::Time time = absl::FromUnixNanos(row.nanoseconds);

    google::protobuf::Timestamp proto;
    EncodeTime(time, &proto);

    EXPECT_EQ(proto.seconds(), row.seconds);
    EXPECT_EQ(proto.nanos(), row.nanos);
    EXPECT_EQ(DecodeTime(proto), time);
  }
}

}  // namespace
}  // namespace tensorkv
