#include "client/cli/value_source.h"

#include <cmath>
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
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Vector;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      Make({.shape = Shape({2, 3}), .dtype = DType::kBF16, .fill = 1.5}));

  EXPECT_EQ(tensor.Description(), "bf16[2,3]");
  EXPECT_THAT(tensor, IsFilledWith(1.5));
}

TEST(ParseShapeTest, ShapesMayHaveBracketsOrBeScalar) {
  EXPECT_THAT(ParseShape("2,3"), IsOkAndHolds(Shape({2, 3})));
  EXPECT_THAT(ParseShape("[4, 5]"), IsOkAndHolds(Shape({4, 5})));
  EXPECT_THAT(ParseShape("[]"), IsOkAndHolds(Shape()));
  EXPECT_THAT(ParseShape("0"), IsOkAndHolds(Shape({0})));
}

TEST(ParseShapeTest, OthersAreErrors) {
  for (const char* text : {"2,x", "[2,3", "-2", "9223372036854775807,2"}) {
    EXPECT_THAT(ParseShape(text), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(ParseFillTest, IsANumberThatADoubleHolds) {
  EXPECT_THAT(ParseFill("-1.5e3"), IsOkAndHolds(-1500));
  EXPECT_THAT(ParseFill("infinity"), IsOkAndHolds(kInfinity));
  for (const char* text : {"one", "", "-1e309"}) {
    EXPECT_THAT(ParseFill(text), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(ValueSourceTest, WhatTheFlagsLeaveOutIsTheKeys) {
  ASSERT_OK_AND_ASSIGN(const ValueSource source, Create({.fill = 8}));

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
  ExpectUsageError(Create({.fill = 1, .npy = "-"}).status(),
                   "--fill=NUMBER or --npy=FILE");
}

TEST(ValueSourceTest, NpyIsConvertedToTheDTypeOfTheFlag) {
  ASSERT_OK_AND_ASSIGN(const std::string file, FormatNpy(Full({2}, 1.5)));

  ASSERT_OK_AND_ASSIGN(const ValueSource source,
                       Create({.dtype = DType::kBF16, .npy = "-"}, file));

  ASSERT_OK_AND_ASSIGN(const Tensor tensor, source.Make(DType::kF32, {}));
  EXPECT_EQ(tensor.Description(), "bf16[2]");
  EXPECT_THAT(tensor, IsFilledWith(1.5));
  ExpectUsageError(Create({.dtype = DType::kI8, .npy = "-"}, file).status(),
                   "--npy=-: expected floats");
}

TEST(ValueSourceTest, NpyExcludesShape) {
  ExpectUsageError(Create({.shape = Shape({2}), .npy = "-"}).status(), "--npy");
}

TEST(ValueSourceTest, NumbersThatTheDTypeLacksAreUsageErrors) {
  const auto expect_lacks = [](DType dtype, double fill,
                               const std::string& part) {
    ExpectUsageError(Make({.dtype = dtype, .fill = fill}).status(), part);
  };
  expect_lacks(DType::kI32, 1.5, "whole number");
  expect_lacks(DType::kI8, 300, "--fill=300");
  expect_lacks(DType::kI64, 1e17, "2^53");
  expect_lacks(DType::kI64, 0x1p53, "2^53");
  expect_lacks(DType::kU8, std::nan(""), "whole number");
  expect_lacks(DType::kF32, 1e39, "--fill=1e+39: expected a number that f32");
  expect_lacks(DType::kF16, 65520, "f16 holds");
  expect_lacks(DType::kBF16, 3.4e38, "bf16 holds");
  expect_lacks(DType::kF8E5M2, 61440, "f8e5m2 holds");
  expect_lacks(DType::kF8E4M3FN, 465, "f8e4m3fn holds");
  expect_lacks(DType::kF8E4M3FN, kInfinity, "f8e4m3fn holds");
}

TEST(ValueSourceTest, FloatsHoldWhatIsRoundedToThem) {
  EXPECT_THAT(*Make({.dtype = DType::kF16, .fill = 65519.9999999}),
              IsFilledWith(65504));
  EXPECT_THAT(*Make({.dtype = DType::kF8E4M3FN, .fill = -464}),
              IsFilledWith(-448));
  EXPECT_THAT(*Make({.fill = -kInfinity}), IsFilledWith(-kInfinity));
  EXPECT_THAT(*Make({.dtype = DType::kF64, .fill = kInfinity}),
              IsFilledWith(kInfinity));
  EXPECT_EQ(
      ElementText(*Make({.dtype = DType::kF8E4M3FN, .fill = std::nan("")}), 0),
      "nan");
  EXPECT_THAT(*Make({.fill = 1e-50}), IsFilledWith(0));
}

TEST(ValueSourceTest, FilesThatCannotBeReadAreUsageErrors) {
  ExpectUsageError(Create({.npy = "/no/such/file.npy"}).status(),
                   "--npy=/no/such/file.npy: cannot open");
  ExpectUsageError(Create({.npy = "-"}, "not npy").status(),
                   "--npy=-: not a .npy file");
}

}  // namespace
}  // namespace tensorkv
