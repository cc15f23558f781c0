#include "base/byte_size.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::StatusIs;

TEST(ParseByteSizeTest, NumberWithoutUnitIsBytes) {
  EXPECT_THAT(ParseByteSize("0"), IsOkAndHolds(0u));
  EXPECT_THAT(ParseByteSize("1048576"), IsOkAndHolds(1048576u));
  EXPECT_THAT(ParseByteSize("7B"), IsOkAndHolds(7u));
}

TEST(ParseByteSizeTest, BinaryUnitsArePowersOf1024) {
  EXPECT_THAT(ParseByteSize("3KiB"), IsOkAndHolds(3072u));
  EXPECT_THAT(ParseByteSize("512MiB"), IsOkAndHolds(536870912u));
  EXPECT_THAT(ParseByteSize("8GiB"), IsOkAndHolds(8589934592u));
  EXPECT_THAT(ParseByteSize("2TiB"), IsOkAndHolds(2199023255552u));
}

TEST(ParseByteSizeTest, DecimalUnitsArePowersOf1000) {
  EXPECT_THAT(ParseByteSize("3kB"), IsOkAndHolds(3000u));
  EXPECT_THAT(ParseByteSize("3MB"), IsOkAndHolds(3000000u));
  EXPECT_THAT(ParseByteSize("3GB"), IsOkAndHolds(3000000000u));
  EXPECT_THAT(ParseByteSize("3TB"), IsOkAndHolds(3000000000000u));
}

TEST(ParseByteSizeTest, LargestNumberFits) {
  EXPECT_THAT(ParseByteSize("9223372036854775807"),
              IsOkAndHolds(std::numeric_limits<int64_t>::max()));
}

class BadByteSizeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BadByteSizeTest, IsInvalid) {
  EXPECT_THAT(ParseByteSize(GetParam()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("got \"" + GetParam() + "\"")));
}

INSTANTIATE_TEST_SUITE_P(Texts, BadByteSizeTest,
                         ::testing::Values("", "GiB", "8XB", "-1", "1.5GiB",
                                           "8 GiB", "8gib",
                                           "9223372036854775808",
                                           "99999999999999999999999",
                                           "8388608TiB", "0x10"));

}  // namespace
}  // namespace tensorkv
