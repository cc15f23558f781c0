#include "bench/harness/section_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace section_text_test {

using ::testing::HasSubstr;
using ::testing::Not;

Section SectionOf(Unit unit, std::vector<Row> rows) {
  return {.title = "Calls", .unit = unit, .rows = std::move(rows)};
}

Row PushRow() {
  return {.name = "tcp/push/1MiB",
          .bytes = 1 << 20,
          .in_flight = 16,
          .ours = {.gigabytes_per_second = 1.5,
                   .keys_per_second = 2e6,
                   .cpu_seconds_per_gigabyte = 1.25,
                   .p50_microseconds = 512.3,
                   .p99_microseconds = 1024.6},
          .references = {
              {"raw", {.gigabytes_per_second = 3, .keys_per_second = 4e6}}}};
}

TEST(SectionTextTest, ARowHasOursAndEachReferenceWithItsRatio) {
  const std::string text =
      SectionText(SectionOf(Unit::kGigabytesPerSecond, {PushRow()}));

  EXPECT_THAT(text, HasSubstr("### Calls\n\n| call          | in flight |"));
  EXPECT_THAT(text, HasSubstr("|---------------|----------:|"));
  EXPECT_THAT(text, HasSubstr("| tcp/push/1MiB |        16 |      1.50 | 3.00 "
                              "(0.50) |     1.25 |    512 |   1025 |\n"));
}

TEST(SectionTextTest, AReferenceThatARowLacksIsADash) {
  Row other = PushRow();
  other.name = "other";
  other.references = {{"echo", {.gigabytes_per_second = 0.5}}};

  const std::string text =
      SectionText(SectionOf(Unit::kGigabytesPerSecond, {PushRow(), other}));

  EXPECT_THAT(text, HasSubstr("| 3.00 (0.50) |            - |"));
  EXPECT_THAT(text, HasSubstr("|           - |  0.50 (3.00) |"));
}

TEST(SectionTextTest, UnitsAreThoseOfTheSection) {
  EXPECT_THAT(SectionText(SectionOf(Unit::kMillionKeysPerSecond, {PushRow()})),
              HasSubstr("|          2.00 | 4.00 (0.50) |"));
  EXPECT_THAT(SectionText(SectionOf(Unit::kNanosecondsPerKey, {PushRow()})),
              HasSubstr("|         500 |  250 (0.50) |"));
  Row times = PushRow();
  times.references = {{"other", {.p50_microseconds = 1024.6}}};
  EXPECT_THAT(SectionText(SectionOf(Unit::kMicroseconds, {times})),
              HasSubstr("|     512 |   1025 (2.00) |"));
}

TEST(SectionTextTest, FiguresAndWhatIsLeftOutAreLines) {
  const std::string text = SectionText(
      {.title = "Keys",
       .figures = {{.name = "memory", .value = 212, .unit = "bytes"}},
       .left_out = {"redis: not installed"}});

  EXPECT_EQ(text,
            "### Keys\n\n"
            "- memory: 212 bytes\n"
            "- left out: redis: not installed\n");
  EXPECT_THAT(text, Not(HasSubstr("|")));
}

}  // namespace section_text_test
}  // namespace tensorkv::bench
