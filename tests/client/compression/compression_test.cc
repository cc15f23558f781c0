#include "client/compression/compression.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace compression_test {

using Kind = Compression::Kind;
using ::testing::HasSubstr;

TEST(CompressionTest, NamesAndNumbersAreRead) {
  const auto parse = [](const char* text) {
    return Compression::Parse(text).value();
  };
  EXPECT_EQ(parse("2bit").threshold, 0.5f);
  EXPECT_EQ(parse("2bit:0.25").threshold, 0.25f);
  EXPECT_EQ(parse("1bit:-1").threshold, -1);
  EXPECT_EQ(parse("sign").kind, Kind::kSign);
  EXPECT_EQ(parse("topk:0.1").fraction, 0.1);
  EXPECT_EQ(parse("randomk:1").kind, Kind::kRandomK);
  EXPECT_EQ(parse("dithering:4,natural,l2").bits, 4);
  EXPECT_TRUE(parse("dithering,natural").natural);
  EXPECT_TRUE(parse("dithering,l2").l2);
  EXPECT_EQ(parse("i8").kind, Kind::kBlocks);
  EXPECT_EQ(parse("f8e5m2:64").block_size, 64);
  EXPECT_EQ(parse("f8e5m2").kind, Kind::kCast);
  EXPECT_EQ(parse("bf16,momentum=0.9").momentum, 0.9f);
  EXPECT_FALSE(parse("2bit,no-feedback").feedback);
  EXPECT_TRUE(parse("f8e5m2").feedback);
  EXPECT_FALSE(parse("f16").feedback);
  EXPECT_TRUE(parse("bf16,feedback").feedback);
  EXPECT_EQ(parse("none").kind, Kind::kNone);
}

TEST(CompressionTest, WhatIsWrongIsNamed) {
  for (const char* text : {"",
                           "3bit",
                           "2bit:0",
                           "2bit:-1",
                           "2bit:x",
                           "2bit:nan",
                           "2bit:1e39",
                           "sign:1",
                           "topk:0",
                           "topk:1.5",
                           "dithering:3",
                           "i8:0",
                           "i8:1.5",
                           "f16:128",
                           "none:1",
                           "topk,natural",
                           "2bit,momentum=1",
                           "2bit,momentum=nan",
                           "2bit,",
                           "2bit,feedbacks"}) {
    EXPECT_THAT(Compression::Parse(text),
                testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("compression: expected ")))
        << text;
  }
}

}  // namespace compression_test
}  // namespace tensorkv
