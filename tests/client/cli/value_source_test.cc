#include "client/cli/value_source.h"

#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "client/cli/elements.h"
#include "client/cli/npy.h"
#include "client/cli/usage_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasElements;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Vector;
using ::testing::HasSubstr;

absl::StatusOr<ValueSource> Create(const ValueFlags& flags,
                                   const std::string& input = "") {
  std::istringstream in(input);
  return ValueSource::Create(flags, in);
}

// What the flags make for a key that is f32[1].
absl::StatusOr<Tensor> Make(const ValueFlags& flags) {
  const absl::StatusOr<ValueSource> source = Create(flags);
  if (!source.ok()) return source.status();
  return source->Make(DType::kF32, {1});
}

void ExpectUsageError(const absl::Status& status, const std::string& part) {
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  EXPECT_TRUE(IsUsageError(status));
}

TEST(ValueSourceTest, FillMakesTheShapeAndDTypeOfTheFlags) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                       Make({.shape = "2,3", .dtype = "bf16", .fill = "1.5"}));

  EXPECT_EQ(tensor.Description(), "bf16[2,3]");
  EXPECT_THAT(tensor, IsFilledWith(1.5));
}

TEST(ValueSourceTest, ShapesMayHaveBracketsOrBeScalar) {
  EXPECT_EQ(Make({.shape = "[4, 5]", .fill = "0"})->Description(), "f32[4,5]");
  EXPECT_EQ(Make({.shape = "[]", .fill = "0"})->Description(), "f32[]");
  EXPECT_EQ(Make({.shape = "0", .fill = "0"})->Description(), "f32[0]");
}

TEST(ValueSourceTest, WhatTheFlagsLeaveOutIsTheKeys) {
  ASSERT_OK_AND_ASSIGN(const ValueSource source, Create({.fill = "8"}));

  EXPECT_FALSE(source.dtype().has_value());
  EXPECT_FALSE(source.shape().has_value());
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, source.Make(DType::kI16, {4}));
  EXPECT_EQ(tensor.Description(), "i16[4]");
}

TEST(ValueSourceTest, NpyOnTheStandardInputIsRead) {
  ASSERT_OK_AND_ASSIGN(const std::string file,
                       FormatNpy(Vector({3, 4}, DType::kI32)));

  ASSERT_OK_AND_ASSIGN(const ValueSource source, Create({.npy = "-"}, file));

  EXPECT_EQ(source.dtype(), DType::kI32);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, source.Make(DType::kF32, {}));
  EXPECT_THAT(tensor, HasElements(std::vector<double>{3, 4}));
}

TEST(ValueSourceTest, NpyFileIsRead) {
  const std::string path = ::testing::TempDir() + "/value_source_test.npy";
  std::ofstream(path, std::ios::binary) << *FormatNpy(Full({2}, 6));

  ASSERT_OK_AND_ASSIGN(const ValueSource source, Create({.npy = path}));

  EXPECT_THAT(*source.Make(DType::kF32, {}), IsFilledWith(6));
  std::remove(path.c_str());
}

TEST(ValueSourceTest, NoValueOrTwoAreUsageErrors) {
  ExpectUsageError(Create({}).status(), "--fill=NUMBER or --npy=FILE");
  ExpectUsageError(Create({.fill = "1", .npy = "-"}).status(),
                   "--fill=NUMBER or --npy=FILE");
}

TEST(ValueSourceTest, NpyIsConvertedToTheDTypeOfTheFlag) {
  ASSERT_OK_AND_ASSIGN(const std::string file, FormatNpy(Full({2}, 1.5)));

  ASSERT_OK_AND_ASSIGN(const ValueSource source,
                       Create({.dtype = "bf16", .npy = "-"}, file));

  ASSERT_OK_AND_ASSIGN(const Tensor tensor, source.Make(DType::kF32, {}));
  EXPECT_EQ(tensor.Description(), "bf16[2]");
  EXPECT_THAT(tensor, IsFilledWith(1.5));
  ExpectUsageError(Create({.dtype = "i8", .npy = "-"}, file).status(),
                   "--npy=-: expected floats");
}

TEST(ValueSourceTest, NpyExcludesShape) {
  ExpectUsageError(Create({.shape = "2", .npy = "-"}).status(), "--npy");
}

TEST(ValueSourceTest, FlagsThatCannotBeReadAreUsageErrors) {
  ExpectUsageError(Make({.shape = "2,x", .fill = "1"}).status(),
                   "--shape=2,x: expected whole numbers");
  ExpectUsageError(Make({.shape = "[2,3", .fill = "1"}).status(),
                   "--shape=[2,3: expected [ and ]");
  ExpectUsageError(Make({.shape = "-2", .fill = "1"}).status(), "--shape=-2");
  ExpectUsageError(
      Make({.shape = "9223372036854775807,2", .fill = "1"}).status(),
      "--shape");
  ExpectUsageError(Make({.dtype = "float", .fill = "1"}).status(), "--dtype");
  ExpectUsageError(Make({.fill = "one"}).status(),
                   "--fill=one: expected a number");
}

TEST(ValueSourceTest, NumbersThatTheDTypeLacksAreUsageErrors) {
  ExpectUsageError(Make({.dtype = "i32", .fill = "1.5"}).status(),
                   "whole number");
  ExpectUsageError(Make({.dtype = "i8", .fill = "300"}).status(), "--fill=300");
  ExpectUsageError(Make({.dtype = "i64", .fill = "1e17"}).status(), "2^53");
  ExpectUsageError(Make({.dtype = "i64", .fill = "9007199254740993"}).status(),
                   "2^53");
  ExpectUsageError(Make({.dtype = "u8", .fill = "nan"}).status(),
                   "whole number");
  ExpectUsageError(Make({.fill = "1e39"}).status(),
                   "--fill=1e+39: expected a number that f32 holds");
  ExpectUsageError(Make({.dtype = "f64", .fill = "-1e309"}).status(),
                   "--fill=-1e309: expected a number that f64 holds");
  ExpectUsageError(Make({.dtype = "f16", .fill = "65520"}).status(),
                   "f16 holds");
  ExpectUsageError(Make({.dtype = "bf16", .fill = "3.4e38"}).status(),
                   "bf16 holds");
  ExpectUsageError(Make({.dtype = "f8e5m2", .fill = "61440"}).status(),
                   "f8e5m2 holds");
  ExpectUsageError(Make({.dtype = "f8e4m3fn", .fill = "465"}).status(),
                   "f8e4m3fn holds");
  ExpectUsageError(Make({.dtype = "f8e4m3fn", .fill = "inf"}).status(),
                   "f8e4m3fn holds");
}

TEST(ValueSourceTest, FloatsHoldWhatIsRoundedToThem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(*Make({.dtype = "f16", .fill = "65519.9999999"}),
              IsFilledWith(65504));
  EXPECT_THAT(*Make({.dtype = "f8e4m3fn", .fill = "-464"}), IsFilledWith(-448));
  EXPECT_THAT(*Make({.fill = "-inf"}), IsFilledWith(-kInfinity));
  EXPECT_THAT(*Make({.dtype = "f64", .fill = "infinity"}),
              IsFilledWith(kInfinity));
  EXPECT_EQ(ElementText(*Make({.dtype = "f8e4m3fn", .fill = "nan"}), 0), "nan");
  EXPECT_THAT(*Make({.fill = "1e-50"}), IsFilledWith(0));
}

TEST(ValueSourceTest, FilesThatCannotBeReadAreUsageErrors) {
  ExpectUsageError(Create({.npy = "/no/such/file.npy"}).status(),
                   "--npy=/no/such/file.npy: cannot open");
  ExpectUsageError(Create({.npy = "-"}, "not npy").status(),
                   "--npy=-: not a .npy file");
}

}  // namespace
}  // namespace tensorkv
