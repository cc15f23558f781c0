#include "bench/data_path/peers/payload.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(PayloadTest, ValuesAreTheSameEveryTimeAndDiffer) {
  ASSERT_OK_AND_ASSIGN(const Tensor first, MakeValues(4096));
  ASSERT_OK_AND_ASSIGN(const Tensor second, MakeValues(4096));

  EXPECT_EQ(first.Description(), "f32[1024]");
  EXPECT_EQ(first.elements<float>(), second.elements<float>());
  EXPECT_NE(first.elements<float>()[0], first.elements<float>()[1]);
}

TEST(PayloadTest, RoomIsZeros) {
  ASSERT_OK_AND_ASSIGN(const Tensor room, MakeRoom(16));

  EXPECT_THAT(room.elements<float>(), Each(0));
}

TEST(PayloadTest, WhatCameBackHasTheSizeAndTheEndsOfWhatWasSent) {
  EXPECT_OK(CheckEnds("abc", "abc"));
  EXPECT_OK(CheckEnds("", ""));
  EXPECT_THAT(CheckEnds("abc", "ab"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("expected 3 bytes, got 2")));
  EXPECT_THAT(CheckEnds("abc", "xbc"), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(CheckEnds("abc", "abx"), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace tensorkv::bench
