#include "tensor/dtype.h"

#include <set>
#include <string>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::StatusIs;

constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;

struct Row {
  DType dtype;
  int number;
  std::string name;
  size_t size;
  bool is_float;
  DType accumulate;
};

class DTypeTest : public ::testing::TestWithParam<Row> {};

TEST_P(DTypeTest, HasTheTraitsOfItsFormat) {
  EXPECT_EQ(NameOf(GetParam().dtype), GetParam().name);
  EXPECT_EQ(SizeOf(GetParam().dtype), GetParam().size);
  EXPECT_EQ(IsFloat(GetParam().dtype), GetParam().is_float);
  EXPECT_EQ(AccumulateType(GetParam().dtype), GetParam().accumulate);
}

TEST_P(DTypeTest, IsReadFromItsNameAndNumber) {
  EXPECT_THAT(ParseDType(GetParam().name), IsOkAndHolds(GetParam().dtype));
  EXPECT_THAT(DTypeFromNumber(GetParam().number),
              IsOkAndHolds(GetParam().dtype));
}

// Written out from design.md and tensor.proto.
const std::vector<Row> kRows = {
    {DType::kF32, 1, "f32", 4, true, DType::kF32},
    {DType::kF64, 2, "f64", 8, true, DType::kF64},
    {DType::kF16, 3, "f16", 2, true, DType::kF32},
    {DType::kBF16, 4, "bf16", 2, true, DType::kF32},
    {DType::kF8E4M3FN, 5, "f8e4m3fn", 1, true, DType::kF32},
    {DType::kF8E5M2, 6, "f8e5m2", 1, true, DType::kF32},
    {DType::kI8, 7, "i8", 1, false, DType::kI8},
    {DType::kU8, 8, "u8", 1, false, DType::kU8},
    {DType::kI16, 9, "i16", 2, false, DType::kI16},
    {DType::kI32, 10, "i32", 4, false, DType::kI32},
    {DType::kI64, 11, "i64", 8, false, DType::kI64},
    {DType::kBool, 12, "bool", 1, false, DType::kBool},
    {DType::kU16, 13, "u16", 2, false, DType::kU16},
    {DType::kU32, 14, "u32", 4, false, DType::kU32},
    {DType::kU64, 15, "u64", 8, false, DType::kU64}};

INSTANTIATE_TEST_SUITE_P(All, DTypeTest, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.name; });

TEST(DTypesTest, ListHasEveryDTypeOnce) {
  const std::set<DType> listed(std::begin(kAllDTypes), std::end(kAllDTypes));

  EXPECT_EQ(listed.size(), kRows.size());
  EXPECT_EQ(std::size(kAllDTypes), kRows.size());
}

TEST(DTypesTest, UnknownNameIsInvalidAndListsTheNames) {
  EXPECT_THAT(
      ParseDType("float32"),
      StatusIs(
          kInvalidArgument,
          HasSubstr("expected one of f32, f64, f16, bf16, f8e4m3fn, "
                    "f8e5m2, i8, u8, i16, u16, i32, u32, i64, u64, bool, got "
                    "\"float32\"")));
  EXPECT_THAT(ParseDType(""), StatusIs(kInvalidArgument));
  EXPECT_THAT(ParseDType("F32"), StatusIs(kInvalidArgument));
}

TEST(DTypesTest, NumbersOutsideTheListAreInvalid) {
  EXPECT_THAT(DTypeFromNumber(0), StatusIs(kInvalidArgument));
  EXPECT_THAT(DTypeFromNumber(-1), StatusIs(kInvalidArgument));
  EXPECT_THAT(DTypeFromNumber(256 + 1), StatusIs(kInvalidArgument));
  EXPECT_THAT(DTypeFromNumber(16),
              StatusIs(kInvalidArgument,
                       HasSubstr("expected a number from 1 to 15, got 16")));
}

}  // namespace
}  // namespace tensorkv
