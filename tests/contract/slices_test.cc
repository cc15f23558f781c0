#include "contract/slices.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

TEST(SlicesTest, NameSaysWhatItIsMadeOf) {
  const std::string name = SliceNameOf("fc1/w", 3, 16, {4096, 1024});

  EXPECT_EQ(name,
            "\xf4\x8f\xbf\xbf"
            "3/16/4096,1024/fc1/w");
  const auto slice = ParseSliceName(name);
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->index, 3u);
  EXPECT_EQ(slice->count, 16u);
  EXPECT_THAT(slice->dimensions, ElementsAre(4096, 1024));
  EXPECT_EQ(slice->key, "fc1/w");
  EXPECT_EQ(WholeKeyOf(name), "fc1/w");
}

TEST(SlicesTest, OtherNamesAreThoseOfKeys) {
  for (const char* const rest :
       {"", "w", "0/2/8", "0/2/8/", "2/2/8/w", "0/0/8/w", "00/2/8/w",
        "0/02/8/w", "-1/2/8/w", "+0/2/8/w", "0/2//w", "0/2/8,/w", "0/2/1/w",
        "0/2/08/w", "0/2/9223372036854775808/w", "0/4294967296/8/w",
        "0/2/2,1,1,1,1,1,1,1,1/w"}) {
    const std::string name = absl::StrCat(kSliceMark, rest);
    EXPECT_FALSE(ParseSliceName(name).has_value()) << rest;
    EXPECT_EQ(WholeKeyOf(name), name);
  }
  EXPECT_EQ(WholeKeyOf("0/2/8/w"), "0/2/8/w");
  EXPECT_EQ(WholeKeyOf(""), "");
}

TEST(SlicesTest, TextsForPeopleHaveTheKeys) {
  const std::string name = SliceNameOf("w", 1, 2, {8});
  EXPECT_EQ(WithWholeKeys(absl::StrCat("key \"", name, "\": no, ", name, "!")),
            "key \"w\": no, w!");
  const std::string other = absl::StrCat("a", kSliceMark, "b");
  EXPECT_EQ(WithWholeKeys(other), other);
}

TEST(SlicesTest, RowsAreCutAsEvenlyAsTheyCanBe) {
  for (const int64_t num_rows : {7, 8, 64, 1000}) {
    for (const uint32_t count : {1u, 2u, 3u, 7u}) {
      EXPECT_EQ(FirstRowOfSlice(num_rows, 0, count), 0);
      EXPECT_EQ(FirstRowOfSlice(num_rows, count, count), num_rows);
      for (uint32_t i = 0; i < count; ++i) {
        const int64_t rows = FirstRowOfSlice(num_rows, i + 1, count) -
                             FirstRowOfSlice(num_rows, i, count);
        EXPECT_EQ(rows, num_rows / count + (i < num_rows % count ? 1 : 0));
      }
    }
  }
}

TEST(SlicesTest, SlicesFollowTheirKeyFromPartitionToPartition) {
  const uint32_t first = PartitionOf("n", "w", 8);
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(PartitionOf("n", SliceNameOf("w", i, 16, {64}), 8),
              (first + i) % 8);
  }
}

}  // namespace
}  // namespace tensorkv
