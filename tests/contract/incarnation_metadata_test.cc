#include "contract/incarnation_metadata.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(IncarnationMetadataTest, FormatIs16Digits) {
  EXPECT_EQ(FormatIncarnation(0x1f), "000000000000001f");
}

TEST(IncarnationMetadataTest, ParseTakesWhatFormatWrites) {
  for (const uint64_t incarnation : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
    EXPECT_EQ(ParseIncarnation(FormatIncarnation(incarnation)), incarnation);
  }
}

TEST(IncarnationMetadataTest, ParseTakesNothingElse) {
  EXPECT_EQ(ParseIncarnation(""), std::nullopt);
  EXPECT_EQ(ParseIncarnation("1f"), std::nullopt);
  EXPECT_EQ(ParseIncarnation("-00000000000001f"), std::nullopt);
  EXPECT_EQ(ParseIncarnation("0x0000000000001f"), std::nullopt);
  EXPECT_EQ(ParseIncarnation("0000000000000001f"), std::nullopt);
}

}  // namespace
}  // namespace tensorkv
