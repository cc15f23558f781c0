#include "bench/harness/text_table.h"

#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

TEST(TextTableTest, ColumnsArePaddedAndNumbersAlignedRight) {
  TextTable table({"call", "GB/s"});
  table.AddRow({"push/1MiB", "1.5"});
  table.AddRow({"pull", "12.25"});

  EXPECT_EQ(table.ToString(),
            "| call      |  GB/s |\n"
            "|-----------|------:|\n"
            "| push/1MiB |   1.5 |\n"
            "| pull      | 12.25 |\n");
}

TEST(TextTableTest, ACharacterOfSeveralBytesIsOneWide) {
  TextTable table({"µs"});
  table.AddRow({"ab"});

  EXPECT_EQ(table.ToString(),
            "| µs |\n"
            "|----|\n"
            "| ab |\n");
}

TEST(TextTableTest, IsEmptyWithoutRows) {
  TextTable table({"call"});
  EXPECT_TRUE(table.empty());

  table.AddRow({"push"});
  EXPECT_FALSE(table.empty());
}

}  // namespace
}  // namespace tensorkv::bench
